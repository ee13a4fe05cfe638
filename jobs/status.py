"""Progress, pace, cost and failures of a workspace: `python jobs/status.py watch=10`."""

import sys
import time
from dataclasses import dataclass

from vse.cli.command import Request, main
from vse.cluster.runtime import set_up_logging
from vse.config import knob
from vse.status.overview import JournalCache, read_status
from vse.status.screen import show, summary
from vse.workspace.layout import Workspace


@dataclass(frozen=True, kw_only=True, slots=True)
class StatusOptions:
    """Keys of this job."""

    watch: float = knob(0.0, "seconds between refreshes, until interrupted; 0: show once", low=0)


def run(request: Request) -> str:
    """Show the workspace, repeatedly with `watch`, and return it in one line. Writes nothing."""
    set_up_logging()
    workspace, cache = Workspace.open(request.workspace), JournalCache()
    status = read_status(workspace, request.tracking, cache)
    show(status)
    while request.options.watch:
        print(summary(status), flush=True)
        time.sleep(request.options.watch)
        status = read_status(workspace, request.tracking, cache)
        show(status)
    return summary(status)


if __name__ == "__main__":
    sys.exit(
        main(
            "status", run, description="One screen of what a workspace is doing, local or s3.", options=StatusOptions()
        )
    )
