"""A sweep as an Optuna study in a database file, which Optuna's dashboard opens."""

import datetime
import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from vse.config import fingerprint
from vse.errors import InputError
from vse.report.response import PAIRS, RSUM
from vse.storage.folder import Folder
from vse.sweeps.ledger import DEFINITION, Entry, Ledger, definition_of
from vse.sweeps.optuna_search import import_optuna
from vse.sweeps.plan import SEED, newest, point_of

Described = Mapping[str, Any]
FRONT = ["validation rsum / 6", "pair accuracy on validation"]  # as the dashboard names its axes


def export_study(folder: Folder, file: Path) -> int:
    """Write a sweep's points as trials of a study with the sweep's name; returns how many there are.

    A trial has the mean objective over the seeds that have finished, or rsum / 6 and pair accuracy of a front. It is
    complete if no seed failed or was ended early, else failed or pruned. Results from before a change of the data are
    left out.

    Args:
        folder: of the sweep.
        file: of the SQLite database; it must not exist.

    Raises:
        InputError: the sweep maximises no number or has no trial, the file exists, or Optuna is not installed.
    """
    optuna = import_optuna("export_study")
    definition = definition_of(folder)
    if not isinstance(definition, dict):
        raise InputError(f"{folder.address(DEFINITION)}: missing or damaged")
    if definition.get("kind") != "objective":
        raise InputError(f"sweep={folder.name}: has no objective to export; its page has the results")
    if file.exists():
        raise InputError(f"out={file}: exists; name another file, or remove it")
    front = definition["objective"] == "front"
    points: dict[str, list[Entry]] = {}
    for entry in newest(Ledger(folder)):
        points.setdefault(fingerprint(point_of(entry.changes)), []).append(entry)
    if not points:
        raise InputError(f"sweep={folder.name}: no trial has ended yet")
    distributions = dict(distributions_of(definition["space"], optuna.distributions))
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        study = optuna.create_study(
            storage=f"sqlite:///{part}",
            study_name=folder.name,
            directions=["maximize"] * (2 if front else 1),
            load_if_exists=False,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            study.set_metric_names(FRONT if front else [definition["objective"]])
        study.set_user_attr("objective", definition["objective"])
        study.set_user_attr("rule", definition["rule"])
        study.add_trials([_trial(entries, distributions, optuna, front) for entries in points.values()])
        study._storage.remove_session()
        part.rename(file)
    finally:
        part.unlink(missing_ok=True)
    return len(points)


def distributions_of(space: Described, distributions: Any) -> Iterator[tuple[str, Any]]:
    """(key, distribution) of every configuration key of a described space that has more than one value.

    A key of several alternatives has one distribution that covers all of them.

    Args:
        space: from `Space.describe`.
        distributions: Optuna's module.
    """
    domains: dict[str, list[Any]] = {}
    for key, domain in _leaves(space):
        domains.setdefault(key, []).append(domain)
    for key, each in domains.items():
        ranges = [bounds for domain in each if (bounds := _range(domain)) is not None]
        if len(ranges) == len(each):
            low, high = min(r[1] for r in ranges), max(r[2] for r in ranges)
            kind = distributions.IntDistribution if all(r[0] for r in ranges) else distributions.FloatDistribution
            yield key, kind(low, high, log=all(r[3] for r in ranges))
        elif not ranges:
            values = list(dict.fromkeys(_categorical(value) for domain in each for value in _values(domain)))
            if len(values) > 1:
                yield key, distributions.CategoricalDistribution(values)


def _leaves(space: Described) -> Iterator[tuple[str, Any]]:
    for key, domain in space.items():
        listed = _values(domain) if isinstance(domain, dict) else []
        if listed and all(isinstance(value, dict) for value in listed):
            for each in listed:
                yield from _leaves(each)
        else:
            yield key, domain


def _values(domain: Any) -> list[Any]:
    """The listed values of a described domain: of a choice or grid, or the constant itself."""
    if not isinstance(domain, dict):
        return [domain]
    return domain.get("choice") or domain.get("grid") or []


def _range(domain: Any) -> tuple[bool, float, float, bool] | None:
    """(whether of integers, lower end, upper end, whether logarithmic) of a described range; None for lists."""
    if not isinstance(domain, dict):
        return None
    for name, bounds in domain.items():
        kind = name.rpartition(" ")[2]
        if kind in ("uniform", "loguniform"):
            whole = name.startswith("integer")
            return whole, bounds[0], bounds[1] - (whole and "step" not in domain), kind == "loguniform"
    return None


def _categorical(value: Any) -> Any:
    """A value as Optuna stores choices: plain, or JSON text for a list."""
    return value if value is None or isinstance(value, bool | int | float | str) else json.dumps(value)


def _trial(entries: Iterable[Entry], distributions: Mapping[str, Any], optuna: Any, front: bool) -> Any:
    entries = list(entries)
    finished = [entry for entry in entries if entry.state == "finished"]
    states = optuna.trial.TrialState
    state = states.COMPLETE if len(finished) == len(entries) else states.FAIL
    if state == states.COMPLETE and any(entry.stopped for entry in finished):
        state = states.PRUNED
    point = point_of(entries[0].changes)
    params, rest = {}, {}
    for key, value in point.items():
        plain = _categorical(value)
        inside = key in distributions and distributions[key]._contains(distributions[key].to_internal_repr(plain))
        (params if inside else rest)[key] = plain
    # Optuna has no intermediate values of several objectives
    curves = [entry.result["curve"] for entry in finished if entry.result.get("curve") and not front]
    shortest = min(map(len, curves), default=0)
    values = [
        (entry.result["metrics"][RSUM] / 6, entry.result["metrics"][PAIRS]) if front else (entry.result["objective"],)
        for entry in finished
    ]
    trial = optuna.trial.create_trial(
        state=state,
        values=[sum(each) / len(each) for each in zip(*values, strict=True)] if state != states.FAIL else None,
        params=params,
        distributions={key: distributions[key] for key in params},
        intermediate_values={k + 1: sum(curve[k] for curve in curves) / len(curves) for k in range(shortest)},
        user_attrs={
            "seeds": [entry.changes.get(SEED) for entry in entries],
            "runs": [entry.result["run"] for entry in finished if "run" in entry.result],
            **{f"metric: {key}": value for key, value in _means(finished).items()},
            **rest,
            **{f"error, seed {entry.changes.get(SEED)}": entry.error for entry in entries if entry.error},
        },
    )
    seconds = sum(entry.spent for entry in entries)
    trial.datetime_start = trial.datetime_complete - datetime.timedelta(seconds=seconds)
    return trial


def _means(finished: list[Entry]) -> dict[str, float]:
    metrics = [entry.result.get("metrics", {}) for entry in finished]
    shared = [key for key in metrics[0] if all(key in each for each in metrics)] if metrics else []
    return {key: sum(each[key] for each in metrics) / len(metrics) for key in shared}
