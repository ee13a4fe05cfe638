"""jobs/report.py: the page of a sweep or of chosen runs, and commands as a page shows them."""

import shlex
from dataclasses import dataclass
from typing import Any

from vse.cli.command import Request
from vse.config import dotted, fingerprint, flatten, knob, typed, walk
from vse.errors import DamagedError, InputError
from vse.report import curve, reproduction_page, response
from vse.report.alpha_page import write_report
from vse.report.description import PAGE
from vse.report.evaluation_commands import evaluation_commands
from vse.report.files import RESULTS
from vse.report.page_row import record_page
from vse.report.response_page import BEST, write_response
from vse.report.runs_page import read_reported, write_runs
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace
from vse.workspace.provenance import FILE_NAME as SUMMARY


@dataclass(frozen=True, kw_only=True, slots=True)
class ReportOptions:
    """Keys of the job: a sweep, or some runs."""

    sweep: str = knob("", "name of a folder below sweeps/")
    runs: tuple[str, ...] = knob((), "names of folders below runs/, measured by jobs/evaluate.py")
    name: str = knob("", "name of the report; empty: derived from its content")


def build_report(request: Request) -> str:
    """Write a report into `reports/NAME`; returns the path of its `summary.json`.

    Raises InputError if there is no such sweep or run, or it has no results yet.
    """
    options = request.options
    if bool(options.sweep) == bool(options.runs):
        raise InputError("sweep, runs: name either one sweep or some runs")
    workspace = Workspace.open(request.workspace)
    if workspace.root.exists():
        workspace.check_writable()
    name = options.name or options.sweep or f"runs-{fingerprint(list(options.runs))}"
    folder = workspace.report(name)
    write = _report_sweep if options.sweep else _report_runs
    headline, files = write(workspace, folder, request)
    record_page(workspace, folder, "report", name, command_of(request), files, page=PAGE)
    outputs = {file.replace(".", "_"): folder.address(file) for file in files}
    return request.write_summary(folder, headline=headline, outputs=outputs)


def _report_sweep(workspace: Workspace, folder: Folder, request: Request) -> tuple[dict[str, Any], list[str]]:
    sweep = request.options.sweep
    source = workspace.existing("sweeps", sweep, "sweep")
    if not source.exists(RESULTS):
        raise InputError(f"sweep={sweep}: has no results yet; run the same jobs/sweep_*.py command to its end")
    try:
        data, definition = source.read_json(RESULTS), source.read_json("definition.json")
        summary = source.read_json(SUMMARY) if source.exists(SUMMARY) else {"command": "", "headline": {}}
    except DamagedError as error:
        raise InputError(f"{error}; the same jobs/sweep_*.py command writes it again") from None
    commands = [text for text in (placed(summary["command"], request), command_of(request)) if text]
    if definition.get("kind") == reproduction_page.KIND:
        return summary["headline"], reproduction_page.write_reproduction(folder, data, commands)
    if definition.get("kind") == response.KIND:
        results, configuration = response.from_dict(data), {"as swept": dotted(definition["config"])}
        best = {BEST: source.read_bytes(BEST).decode()} if source.exists(BEST) else {}
        return summary["headline"], write_response(folder, results, commands, configuration, best, request.elsewhere)
    configuration = {arm: dotted(values) for arm, values in definition["arms"].items()}
    return summary["headline"], write_report(folder, curve.from_dict(data), commands, configuration, {})


def _report_runs(workspace: Workspace, folder: Folder, request: Request) -> tuple[dict[str, Any], list[str]]:
    runs = [read_reported(workspace, name) for name in request.options.runs]
    commands = {run.name: evaluation_commands(run.name, run.evaluations, request.elsewhere) for run in runs}
    files = write_runs(folder, runs, commands, command_of(request))
    return {f"{run.name}/{key.name}": value for run in runs for key, value in run.metrics.items()}, files


def command_of(request: Request, job: str = "", *more: str) -> str:
    """The command of a request.

    Args:
        request: What the user typed.
        job: Another job, which gets the settings of the run configuration only.
        more: Settings to add.
    """
    values = flatten(request.config) if request.config is not None else {}
    values |= {} if job else flatten(request.options)
    repeated = {key for key, spec, _, _ in walk(request.options) if spec.metadata.get("repeated")}
    parts = ["python", f"jobs/{job or request.job}.py"]
    if request.preset is not None:
        parts += ["--preset", request.preset]
    for key in sorted(request.changed & values.keys()):
        parts += [f"{key}={typed(item)}" for item in (values[key] if key in repeated else (values[key],))]
    return shlex.join([*parts, *more, *request.elsewhere])


def placed(command: str, request: Request) -> str:
    """A command as it was typed, with the workspace of the request if that came from the environment."""
    if not command or "--workspace" in command or not request.elsewhere:
        return command
    return f"{command} {shlex.join(request.elsewhere)}"
