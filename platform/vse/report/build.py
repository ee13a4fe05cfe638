"""Reports as files: figure, tables and page of a sweep, or of chosen runs, wherever they are asked for."""

import json
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vse.cli.command import Request
from vse.config import dotted, fingerprint, flatten, knob, typed
from vse.display import markdown
from vse.errors import DamagedError, InputError
from vse.report import response
from vse.report.alpha_figure import alpha_figure
from vse.report.curve import AlphaResults, from_dict
from vse.report.description import files_text, page_link
from vse.report.html import Provenance, alpha_page, metrics_page
from vse.report.measured import run_metrics, run_sizes
from vse.report.published_page import Run, published_section, unrecognised
from vse.report.response_build import BEST, write_response
from vse.report.tables import alpha_table, curve_csv, metrics_csv
from vse.report.terminal import told_size
from vse.stages.measuring.options import Size
from vse.storage.folder import Folder
from vse.training.checkpoint import Checkpoints
from vse.training.origin import Origin, read_origin
from vse.workspace.layout import Workspace
from vse.workspace.provenance import environment
from vse.workspace.summary import FILE_NAME as SUMMARY
from vse.workspace.summary import summarised, write_summary

SPLIT = "test"
RESULTS = "results.json"


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportOptions:
    """Keys of the job: a sweep, or some runs."""

    sweep: str = knob("", "name of a folder below sweeps/")
    runs: tuple[str, ...] = knob((), "names of folders below runs/, measured by jobs/evaluate.py")
    name: str = knob("", "name of the report; empty: made from what it shows")


def build_report(request: Request) -> str:
    """Write the report that the options ask for into reports/<name>; returns the path of its `summary.json`.

    Raises InputError where there is no such sweep or run, or nothing in it to report yet.
    """
    started, options = time.time(), request.options
    if bool(options.sweep) == bool(options.runs):
        raise InputError("sweep, runs: name either one sweep or some runs")
    workspace = Workspace.open(request.workspace)
    if workspace.root.exists():
        workspace.check_writable()
    if options.sweep:
        name = options.name or options.sweep
        folder = workspace.report(name)
        headline, files = _of_sweep(workspace, options.sweep, folder, request)
    else:
        name = options.name or f"runs-{fingerprint(list(options.runs))}"
        folder = workspace.report(name)
        headline, files = _of_runs(workspace, options.runs, folder, request)
    journal = workspace.journal(folder)
    journal.start(f"report-{name}", name=f"report {name}", tags={"kind": "report"})
    journal.files(files)
    journal.describe("headline", page_link(folder))
    journal.describe("result", files_text(files))
    journal.describe("commands", markdown.commands([command_of(request)]))
    journal.end("finished")
    outputs = {file.replace(".", "_"): folder.address(file) for file in files}
    return write_summary(folder, job=request.job, started=started, options=options, headline=headline, outputs=outputs)


def _of_sweep(workspace: Workspace, sweep: str, folder: Folder, request: Request) -> tuple[dict[str, Any], list[str]]:
    source = workspace.existing("sweeps", sweep, "sweep")
    if not source.exists(RESULTS):
        raise InputError(f"sweep={sweep}: has no results yet; run the same jobs/sweep_*.py command to its end")
    try:
        data, definition = source.read_json(RESULTS), source.read_json("definition.json")
        summary = source.read_json(SUMMARY) if source.exists(SUMMARY) else {"command": "", "headline": {}}
    except DamagedError as error:
        raise InputError(f"{error}; the same jobs/sweep_*.py command writes it again") from None
    commands = [text for text in (placed(summary["command"], request), command_of(request)) if text]
    if definition.get("kind") == response.KIND:
        found, asked = response.from_dict(data), {"as swept": dotted(definition["config"])}
        best = {BEST: source.read_bytes(BEST).decode()} if source.exists(BEST) else {}
        return summary["headline"], write_response(folder, found, commands, asked, best, request.elsewhere)
    configuration = {arm: dotted(values) for arm, values in definition["arms"].items()}
    return summary["headline"], write_report(folder, from_dict(data), commands, configuration, {})


def _of_runs(
    workspace: Workspace, runs: Sequence[str], folder: Folder, request: Request
) -> tuple[dict[str, Any], list[str]]:
    rows, configuration, beside, facts, bare = {}, {}, [], {}, []
    for name in runs:
        _refuse_ensemble(workspace, name)
        run = workspace.existing("runs", name, "runs")
        rows[name], config = run_metrics(run), run.read_json("config.json")
        sizes = run_sizes(run)
        facts[name] = _facts(config, sizes, read_origin(run))
        if not sizes and all(key.startswith("val/") for key in rows[name]):
            bare.append(name)
        configuration[name] = dotted(config)
        beside.append(Run(name=name, config=config, metrics=rows[name], data=_data_of(run, workspace)))
        if not rows[name]:
            raise InputError(f"runs={name}: has no numbers yet; finish it with jobs/train.py")
    commands = [_evaluation(name, request) for name in runs]
    made = Provenance(
        commands=[*commands, command_of(request)], configuration=configuration, versions=environment()["versions"]
    )
    title, other = f"{len(runs)} run{'s' if len(runs) > 1 else ''}", unrecognised(beside)
    for line in other:
        print(f"note: {line}", file=sys.stderr, flush=True)
    notes = [*_not_evaluated(bare, request), *other]
    files = {
        "report.html": metrics_page(title, ", ".join(runs), rows, made, published_section(beside), facts, notes),
        "table.csv": metrics_csv(rows),
        "table.json": json.dumps(rows, indent=1, ensure_ascii=False) + "\n",
    }
    for name, text in files.items():
        folder.write_text(name, text)
    return {f"{run}/{key}": value for run, found in rows.items() for key, value in found.items()}, list(files)


def _data_of(run: Folder, workspace: Workspace) -> str:
    """The name of the data set that a run was trained on; empty where the workspace does not have it any more."""
    best = Checkpoints(run.child("checkpoints")).best()
    digits = "" if best is None else best.read_json("context.json")["fingerprints"].get("records", "")
    kept = workspace.root.child("datasets").names() if digits else []
    return next((name.removesuffix(f"-{digits}") for name in kept if name.endswith(f"-{digits}")), "")


def _refuse_ensemble(workspace: Workspace, name: str) -> None:
    """An ensemble has no configuration or seed of its own to stand in a column of runs."""
    ensembles = workspace.root.child("ensembles")
    last = summarised(name).rpartition("/")[2]
    if last in ensembles.names() and name not in workspace.root.child("runs").names():
        raise InputError(
            f"runs={name}: is an ensemble, and reports are of single runs; jobs/evaluate.py prints the numbers of "
            f"ensembles and keeps them below {ensembles.child(last, 'evaluation')}"
        )


def _facts(config: Mapping[str, Any], sizes: Mapping[str, Size], origin: Origin | None) -> dict[str, str]:
    """What a reader asks first of a run: its preset, what its configuration says and what its evaluations noted."""
    named = {"data set": config.get("data"), "family": config.get("model")}
    found = {} if origin is None else {"preset": str(origin)}
    found |= {text: str(part["name"]) for text, part in named.items() if isinstance(part, Mapping) and "name" in part}
    file = Path(str(config.get("data", {}).get("file", ""))).name
    if file and "data set" in found:  # which of the sets of this kind
        found["data set"] += f", {file}"
    found["seed"] = str(config.get("seed", "–"))
    return found | {split: told_size(size) for split, size in sizes.items()}


def _not_evaluated(runs: Sequence[str], request: Request) -> list[str]:
    """A line for each run of which training alone has told numbers."""
    return [f"not evaluated: {name}; {_evaluation(name, request)}" for name in runs]


def _evaluation(run: str, request: Request) -> str:
    """The command that evaluates a run of the request's workspace."""
    return shlex.join(["python", "jobs/evaluate.py", f"run={run}", *request.elsewhere])


def write_report(
    folder: Folder,
    results: AlphaResults,
    commands: Sequence[str],
    configuration: Mapping[str, Mapping[str, Any]],
    facts: Mapping[str, str],
) -> list[str]:
    """Write figure, tables, page and results of an α sweep into a folder; returns the names of the files."""
    figure, table, around = alpha_figure(results, SPLIT), alpha_table(results, SPLIT), environment()
    hardware = around["hardware"]
    machine = f"{hardware['processor']}, {hardware['cores']} cores, {hardware['memory_gib']} GiB"
    shown = {**facts, "machine": machine, "GPUs": ", ".join(hardware["gpus"]) or "none"}
    if around["git"].get("commit"):
        shown["commit"] = around["git"]["commit"]
    made = Provenance(commands=commands, configuration=configuration, versions=around["versions"], facts=shown)
    files = {
        "alpha.png": figure["png"],
        "alpha.svg": figure["svg"],
        "table.csv": table.to_csv().encode(),
        "table.json": (json.dumps(table.to_data(), indent=1, ensure_ascii=False) + "\n").encode(),
        "table.html": table.to_html().encode(),
        "curve.csv": curve_csv(results).encode(),
        "report.html": alpha_page(results, table, figure["png"], made).encode(),
        RESULTS: (json.dumps(results.to_dict(), indent=1, ensure_ascii=False) + "\n").encode(),
    }
    for name, data in files.items():
        folder.write_bytes(name, data)
    return list(files)


def command_of(request: Request, job: str = "", *more: str) -> str:
    """The command of a request, with the settings the user gave; of another job, with those of the run. `more`:
    settings to add."""
    values = flatten(request.config) if request.config is not None else {}
    values |= {} if job else flatten(request.options)
    parts = ["python", f"jobs/{job or request.job}.py"]
    if request.preset is not None:
        parts += ["--preset", request.preset]
    parts += [f"{key}={typed(values[key])}" for key in sorted(request.changed) if key in values]
    return shlex.join([*parts, *more, *request.elsewhere])


def placed(command: str, request: Request) -> str:
    """A command as it was typed, with the request's workspace where it came from the environment."""
    if not command or "--workspace" in command or not request.elsewhere:
        return command
    return f"{command} {shlex.join(request.elsewhere)}"
