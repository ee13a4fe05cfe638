"""Differences between runs, with intervals: `python jobs/compare.py runs=vsepp-scenes-s0-1a2b3c4d,RUN`."""

import sys

from vse.cli.command import Request, main
from vse.cluster.runtime import set_up_logging
from vse.report.comparison_build import CompareOptions, build_comparison, check_compared, foresee_comparison
from vse.tracking.shipping import Shipper


def run(request: Request) -> str:
    """Measure what is missing, compare, write the page, and update MLflow."""
    set_up_logging()
    path = build_comparison(request)
    Shipper(request.workspace, request.tracking).ship(wait=10)
    return path


if __name__ == "__main__":
    sys.exit(
        main(
            "compare",
            run,
            description="Compare runs with the first of them: the difference of every metric with a 95 % interval over "
            "test images, and over seeds if runs differ only in their seed; a table and a page.",
            options=CompareOptions(),
            check=lambda request: check_compared(request.options),
            plan=foresee_comparison,
        )
    )
