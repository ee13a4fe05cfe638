"""One page of a sweep or of chosen runs: `python jobs/report.py sweep=alpha-univse_scenes-1a2b3c4d`."""

import sys

from vse.command import main
from vse.report.build import ReportOptions, build_report

if __name__ == "__main__":
    sys.exit(
        main(
            "report",
            build_report,
            description="Write one self-contained page, with figures and tables, of a sweep or of chosen runs.",
            options=ReportOptions(),
        )
    )
