"""Queries with their best candidates, failures first: `python jobs/show_gallery.py runs=RUN,OTHER`."""

import sys

from vse.cli.command import Request, main
from vse.cluster.runtime import set_up_logging
from vse.report.gallery_page import GalleryOptions, build_gallery, foresee_gallery
from vse.tracking.shipping import Shipper


def run(request: Request) -> str:
    """Score, write the page, and update MLflow."""
    set_up_logging()
    path = build_gallery(request)
    Shipper(request.workspace, request.tracking).ship(wait=10)
    return path


if __name__ == "__main__":
    sys.exit(
        main(
            "show_gallery",
            run,
            description="Show queries with their best candidates, by one run or several. These are queries with the "
            "worst ranks, chosen queries, and random ones; right answers and adversaries are marked.",
            options=GalleryOptions(),
            plan=foresee_gallery,
        )
    )
