"""Measure a trained run: `python jobs/evaluate.py run=RUN tasks=retrieval,attacks measure.splits=test,shifted`."""

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from vse.cli.command import Request, main
from vse.cluster.runtime import set_up_logging
from vse.config import fingerprint, knob, to_dict
from vse.display import markdown
from vse.evaluation.tasks import check_names
from vse.report.build import command_of
from vse.report.description import evaluation_headline, evaluation_text
from vse.report.measured import altered, intervals, keyed, lacking, named, summary_metrics
from vse.report.terminal import lines
from vse.stages.measuring.checks import foresee_measure
from vse.stages.measuring.options import TASKS, MeasureOptions
from vse.stages.measuring.stage import measure
from vse.storage.folder import Folder
from vse.tracking.shipping import Shipper
from vse.workspace.journal import read
from vse.workspace.layout import Workspace
from vse.workspace.provenance import run_tags

_HEADLINE = "headline evaluation"  # a section of the journal


@dataclass(frozen=True, kw_only=True, slots=True)
class EvaluateOptions:
    """Keys of this job."""

    run: tuple[str, ...] = knob(
        (),
        "name of a folder below runs/, or a path that a job printed; several are ensembled by the mean of their "
        "similarities",
    )
    tasks: tuple[str, ...] = TASKS
    measure: MeasureOptions = field(default_factory=partial(MeasureOptions, device="auto"))


def run(request: Request) -> str:
    """Tasks on the kept checkpoint; prints their tables and keeps the numbers in the folder of the run.

    Next to the numbers is a table with the outcome of every query (`vse.evaluation.outcomes`). Several runs are an
    ensemble, with a folder below ensembles/ and a row in MLflow of its own.
    """
    options = request.options
    set_up_logging()
    workspace = Workspace.open(request.workspace)
    names, runs = _runs(request)
    name = names[0] if len(names) == 1 else f"ensemble-{fingerprint(names)}"
    folder = (runs[0] if len(names) == 1 else workspace.ensemble(name)).check_writable()
    with Shipper(request.workspace, request.tracking).every(30):
        measured = measure(runs, folder.child("evaluation"), workspace, options.tasks, options.measure)
        journal, values = workspace.journal(folder), keyed(measured)
        how = to_dict(options.measure)
        labelled, way = keyed(measured, how), altered(how)
        rsums = {key.label: value for key, value in labelled.items() if key.metric.name == "rsum"}
        shown = list(lines(values, measured.sizes, lacking(measured), intervals(measured)))
        with journal.together():
            if len(names) > 1:
                journal.start(name, tags={"kind": "ensemble", **run_tags()}, ago=time.time() - request.started)
                journal.params({"runs": ",".join(names)})
                journal.describe("asked", f"The mean of the similarities of {', '.join(map(markdown.run, names))}")
            journal.metrics(named(labelled), step=0)
            journal.files(f"evaluation/{each}" for measures in measured.tasks.values() for each in measures.pictures)
            if rsums and not (way and _HEADLINE in read(journal.path).texts):
                # an altered measurement, such as one in folds, never replaces the numbers of the run as configured
                journal.describe(_HEADLINE, evaluation_headline(rsums))
            journal.describe(f"evaluation {measured.digits}", evaluation_text(shown, command_of(request)))
            if len(names) > 1:
                journal.end("finished")
    path = request.write_summary(
        folder.child("evaluation"),
        headline=summary_metrics(measured, options.measure),
        outputs={"run": folder.uri}
        | {
            f"outcomes_{name}": folder.child("evaluation").address(measures.table)
            for name, measures in measured.tasks.items()
            if measures.table
        },
        digits=measured.digits,
    )
    if way:
        print(f"{way}:")
    print("\n".join(shown))
    return path


def _runs(request: Request) -> tuple[list[str], list[Folder]]:
    """The runs by name, and their folders."""
    workspace, names = Workspace.open(request.workspace), sorted(request.options.run) or [""]
    return names, [workspace.existing("runs", name, "run") for name in names]


def plan(request: Request) -> Iterable[str]:
    """The lines of a dry run."""
    options = request.options
    return foresee_measure(_runs(request)[1], Workspace.open(request.workspace), options.tasks, options.measure)


if __name__ == "__main__":
    sys.exit(
        main(
            "evaluate",
            run,
            description="Measure tasks on a trained run, or on an ensemble of several: retrieval, attacks and others.",
            options=EvaluateOptions(),
            check=lambda request: check_names(request.options.tasks),
            plan=plan,
        )
    )
