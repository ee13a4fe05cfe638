"""One page of a sweep or of chosen runs: `python jobs/report.py sweep=alpha-univse_scenes-1a2b3c4d`."""

import sys

from vse.cli.command import Request, main
from vse.report.build import ReportOptions, build_report
from vse.tracking.shipping import Shipper


def run(request: Request) -> str:
    """Write the page and update MLflow, since a report is often the last job of a study."""
    path = build_report(request)
    Shipper(request.workspace, request.tracking).ship(wait=10)
    return path


if __name__ == "__main__":
    sys.exit(
        main(
            "report",
            run,
            description="Write one self-contained page, with figures and tables, of a sweep or of chosen runs.",
            options=ReportOptions(),
        )
    )
