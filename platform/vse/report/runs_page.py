"""The report of chosen runs: their metrics, one table for each data set, and published numbers on the same data."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

from vse.config import dotted, fingerprint
from vse.display.counts import count
from vse.errors import InputError
from vse.report.files import json_text, write_files
from vse.report.measured import MetricKey, RunNumbers, alike, grouped, named
from vse.report.page import Provenance, provenance, render
from vse.report.published_page import ReportedRun, published_tables, unrecognised
from vse.report.tables import metrics_csv
from vse.report.terminal import size_text
from vse.stages.measuring.options import Size
from vse.storage.folder import Folder
from vse.training.checkpoint import Checkpoints
from vse.training.run_journal import Origin, read_origin
from vse.workspace.layout import Workspace
from vse.workspace.provenance import summarised

_FOLDS = ("validation fold", "test fold")  # facts of runs of a cross-validation, by `data.held_out`


def read_reported(workspace: Workspace, name: str) -> ReportedRun:
    """Everything that a report shows of a run. Raises InputError if it is an ensemble, absent, or without numbers."""
    _refuse_ensemble(workspace, name)
    run = workspace.existing("runs", name, "runs")
    numbers = RunNumbers(run)
    if not numbers.metrics:
        raise InputError(f"runs={name}: has no numbers yet; finish it with jobs/train.py")
    config, sizes = run.read_json("config.json"), numbers.sizes
    best = Checkpoints(run.child("checkpoints")).best()
    records = "" if best is None else best.read_json("context.json")["fingerprints"].get("records", "")
    kept = workspace.root.child("datasets").names() if records else []
    return ReportedRun(
        name=name,
        config=config,
        metrics=numbers.metrics,
        sizes=sizes,
        met=numbers.met,
        evaluations=numbers.evaluations,
        facts=_facts(config, sizes, read_origin(run)),
        records=records or fingerprint(config.get("data")),
        data=next((each.removesuffix(f"-{records}") for each in kept if each.endswith(f"-{records}")), ""),
    )


def _refuse_ensemble(workspace: Workspace, name: str) -> None:
    """An ensemble has no configuration or seed of its own, so it cannot be a column of runs."""
    ensembles = workspace.root.child("ensembles")
    last = summarised(name).rpartition("/")[2]
    if last in ensembles.names() and name not in workspace.root.child("runs").names():
        raise InputError(
            f"runs={name}: is an ensemble, and reports are of single runs; jobs/evaluate.py prints the numbers of "
            f"ensembles and keeps them below {ensembles.child(last, 'evaluation')}"
        )


def _facts(config: Mapping[str, Any], sizes: Mapping[str, Size], origin: Origin | None) -> dict[str, str]:
    """Preset, data set, family, fold and seed of a run, and the sizes of its evaluations."""
    facts = {} if origin is None else {"preset": str(origin)}
    for label, part in (("data set", config.get("data")), ("family", config.get("model"))):
        if isinstance(part, Mapping) and "name" in part:
            facts[label] = str(part["name"])
    data = config.get("data", {})
    file = PurePosixPath(str(data.get("file", ""))).name
    if file and "data set" in facts:
        facts["data set"] += f", {file}"
    if data.get("folds"):
        fold = _FOLDS[data.get("held_out") == "test"]
        facts[fold] = f"{data.get('fold', 0)} (of 0–{data['folds'] - 1})"
    facts["seed"] = str(config.get("seed", "–"))
    return facts | {split: size_text(size) for split, size in sizes.items()}


def write_runs(
    folder: Folder, runs: Sequence[ReportedRun], commands: Mapping[str, Sequence[str]], own: str
) -> list[str]:
    """Write page and tables of runs.

    Args:
        folder: Where to write.
        runs: The runs, in the order of the columns.
        commands: The commands that evaluate each run, by its name.
        own: The command that writes the report.

    Returns:
        The names of the files.
    """
    other = unrecognised(runs)
    for line in other:
        print(f"note: {line}", file=sys.stderr, flush=True)
    notes = [f"not evaluated: {run.name}; {commands[run.name][0]}" for run in runs if not run.evaluated]
    made_with = provenance(
        [*chain.from_iterable(commands.values()), own], {run.name: dotted(run.config) for run in runs}
    )
    rows = {run.name: named(run.metrics) for run in runs}
    files = {
        "report.html": runs_page(runs, made_with, [*notes, *other]),
        "table.csv": metrics_csv(rows),
        "table.json": json_text(rows),
    }
    return write_files(folder, files)


def runs_page(runs: Sequence[ReportedRun], made_with: Provenance, notes: Iterable[str] = ()) -> str:
    """The page of runs: a table for each data set, since numbers on different data cannot be compared.

    Args:
        runs: The runs, in the order of the columns. Runs with the same `records` share a table.
        made_with: How the numbers can be reproduced.
        notes: Sentences on what the tables lack, such as runs that were not evaluated.

    Returns:
        The HTML document.
    """
    by_data, folds = dict[str, list[ReportedRun]](), any(fold in run.facts for run in runs for fold in _FOLDS)
    for run in runs:
        by_data.setdefault(run.records, []).append(run)
    tables, hint = published_tables(runs)
    return render(
        "runs.html",
        title=count(len(runs), "run"),
        heading=count(len(runs), "run"),
        lead=", ".join(run.name for run in runs),
        protocol={
            "data": "one table for each data set" + " and fold" * folds if len(by_data) > 1 else _data(runs[0]),
            "candidates": "all images and captions of a split, unless a heading names a protocol",
            "seeds": "one for each run",
        },
        groups=[_table(group) for group in by_data.values()],
        notes=notes,
        published={"tables": tables, "hint": hint},
        provenance=made_with,
    )


def _table(runs: Sequence[ReportedRun]) -> dict[str, Any]:
    """One line for each fact and metric, under headings that name the split; one column for each run."""
    facts = dict.fromkeys(name for run in runs for name in run.facts)
    sections: list[dict[str, Any]] = [
        {"heading": "", "lines": [(name, [run.facts.get(name) for run in runs]) for name in facts]}
    ]
    for heading, keys in grouped(key for run in runs for key in run.metrics).items():
        names, label = {key.metric.name for key in keys}, keys[0].label
        numbered = [run for run in runs if any(key in run.metrics for key in keys)]
        groups = alike(numbered, lambda run, names=names, label=label: run.met_by(names, label))
        for group in groups:
            of_group = [run if run in group else None for run in runs]
            lines = [(key.metric.label, [_cell(run, key) for run in of_group]) for key in keys]
            other = f" (data or adversaries that other runs did not meet: {_names(group)})" if len(groups) > 1 else ""
            sections.append({"heading": heading + other, "lines": lines})
    data = _data(runs[0])
    title = (f"{data}: " if data else "") + "one column a run; recalls in percent, ranks 1-based"
    return {"title": title, "names": [run.name for run in runs], "sections": sections}


def _data(run: ReportedRun) -> str:
    """The data set of a run, with the fold: runs on different folds have different images in the same split."""
    parts = (f"{label} {run.facts[label]}" for label in _FOLDS if label in run.facts)
    return ", ".join(filter(None, (run.facts.get("data set", ""), *parts)))


def _cell(run: ReportedRun | None, key: MetricKey) -> str | None:
    return None if run is None or key not in run.metrics else f"{run.metrics[key]:.{key.metric.decimals}f}"


def _names(runs: Iterable[ReportedRun]) -> str:
    return ", ".join(run.name for run in runs)
