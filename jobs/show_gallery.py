"""Queries with their best candidates, failures first: `python jobs/show_gallery.py runs=RUN,OTHER`."""

import sys

from vse.cli.command import Request, main
from vse.cluster.runtime import set_up_logging
from vse.report.gallery_page import GalleryOptions, build_gallery, foresee_gallery


def run(request: Request) -> str:
    """Score, and write the page."""
    set_up_logging()
    return build_gallery(request)


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
