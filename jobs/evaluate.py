"""Measure a trained run: `python jobs/evaluate.py run=univse-scenes-s0-1a2b3c4d measure.splits=test,shifted`."""

import sys
import time
from dataclasses import dataclass, field

from vse.command import Request, main
from vse.config import knob
from vse.measure import MeasureOptions, measure_run
from vse.runtime import set_up_logging
from vse.summary import write_summary
from vse.tracking import Shipper
from vse.training.run import run_journal
from vse.workspace import Workspace


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """Keys of this job."""

    run: str = knob("", "name of a folder below runs/")
    measure: MeasureOptions = field(default_factory=MeasureOptions)


def run(request: Request) -> str:
    """Retrieval and attacks on the kept checkpoint; prints the table and writes it beside the run."""
    started, options = time.time(), request.options
    set_up_logging()
    workspace = Workspace.open(request.workspace)
    folder = workspace.existing("runs", options.run, "run").check_writable()
    with Shipper(request.workspace, request.tracking).every(30):
        metrics = measure_run(folder, workspace, options.measure)
        run_journal(workspace, options.run).metrics(metrics, step=0)
    width = max(map(len, metrics))
    for name, value in metrics.items():
        print(f"{name:{width}}  {value:8.3f}")
    return write_summary(
        folder.child("evaluation"),
        job="evaluate",
        started=started,
        options=options,
        headline=metrics,
        outputs={"run": folder.uri},
    )


if __name__ == "__main__":
    sys.exit(
        main(
            "evaluate",
            run,
            description="Retrieval and retrieval under attack on a trained run.",
            options=Options(),
        )
    )
