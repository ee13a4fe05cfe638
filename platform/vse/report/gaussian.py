"""How Gaussian codes of systems are, before and after training, over seeds: a file that grows by a system a call."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vse import registry
from vse.config import flatten, knob
from vse.errors import InputError
from vse.evaluation.gaussianity import KeepsCodes
from vse.evaluation.intervals import interval
from vse.storage.folder import Folder
from vse.training.compatibility import check_objective
from vse.training.config import RunConfig

RESULTS = "results.json"
SPLIT = "test"
SCHEMA_VERSION = 1
SIDES = ("images", "captions")
BEFORE = "before"
# name of the number -> heading, factor, digits
COLUMNS: Mapping[str, tuple[str, float, int]] = {
    "mean": ("mean", 1, 2),
    "std": ("deviation", 1, 2),
    "skewness": ("skewness", 1, 2),
    "kurtosis": ("kurtosis", 1, 2),
    "ks_median": ("KS", 1, 3),
    "ks_rejected": ("rejected, %", 100, 0),
    "ks_shape": ("KS of shape", 1, 3),
    "fresh_accuracy": ("fresh judge, %", 100, 0),
    "own_accuracy": ("own judge, %", 100, 0),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class CodesOptions:
    """Keys of the job beside the run configuration."""

    name: str = knob("", "what the system is called in the table")
    seeds: int = knob(5, "runs, of seeds 0, 1, ...", low=1)
    out: str = knob("", "folder of the file that grows; empty: `reports/gaussian` in the workspace", writes="folder")


def check(config: RunConfig, options: CodesOptions) -> None:
    """What can be told before anything is trained. Raises InputError for a nameless system or one without codes."""
    if not options.name:
        raise InputError("codes.name: what is the system called in the table?")
    family = registry.name_of("family", config.model)
    if not issubclass(registry.component("family", family), KeepsCodes):
        raise InputError(f"model={family}: this family has only unit vectors; jWAE has other codes")
    check_objective(config)


def add_system(
    out: Folder, name: str, command: str, config: RunConfig, measured: Mapping[int, Mapping[str, float]]
) -> list[str]:
    """Put a system into the file, in place of what bore its name; returns the lines of the table of all.

    measured: seed -> numbers of `measure.gaussian`. Raises InputError where the file is none of ours.
    """
    kept = out.read_json(RESULTS) if out.exists(RESULTS) else {"schema": SCHEMA_VERSION, "systems": {}}
    if not isinstance(kept, dict) or kept.get("schema") != SCHEMA_VERSION:
        raise InputError(f"{out.address(RESULTS)}: written by another job or version; name another folder in codes.out")
    keys = [key for key in next(iter(measured.values())) if f"{SPLIT}/gaussian_" in key]
    numbers = {key: [each[key] for each in measured.values()] for key in keys}
    kept["systems"][name] = {
        "command": command,
        "seeds": sorted(measured),
        "configuration": {key: value for key, value in flatten(config).items() if key != "seed"},
        "numbers": {key.removeprefix(f"{SPLIT}/gaussian_"): _interval(values) for key, values in numbers.items()},
    }
    out.write_text(RESULTS, json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    return table(kept["systems"])


def table(systems: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Markdown: a row a system and side, in each cell the mean before training, then after it with its interval."""
    heads = [heading for heading, _, _ in COLUMNS.values()]
    lines = [f"| system | codes of | {' | '.join(heads)} |", f"|{'---|' * (len(heads) + 2)}"]
    for name, system in systems.items():
        for side in SIDES:
            cells = [_cell(system["numbers"], side, metric) for metric in COLUMNS]
            lines.append(f"| {name} | {side} | {' | '.join(cells)} |")
    return lines


def _cell(numbers: Mapping[str, Sequence[float | None]], side: str, metric: str) -> str:
    if f"{side}/{metric}" not in numbers:
        return "none"
    _, factor, digits = COLUMNS[metric]
    (mean, half), (before, _) = numbers[f"{side}/{metric}"], numbers[f"{side}/{BEFORE}/{metric}"]
    assert mean is not None
    assert before is not None
    spread = "" if half is None else f" ± {factor * half:.{digits}f}"
    return f"{factor * before:.{digits}f} → {factor * mean:.{digits}f}{spread}"


def _interval(values: Sequence[float]) -> list[float | None]:
    """[mean, half of the 95 % interval over seeds; None of a single one]."""
    found = interval(values)
    return [round(found.mean, 5), None if math.isnan(found.half) else round(found.half, 5)]
