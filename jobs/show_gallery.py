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
            description="A page of queries with their best candidates, of one run or several side by side: those with "
            "the worst ranks, those asked for, and some drawn at random; right answers and adversaries are marked.",
            options=GalleryOptions(),
            plan=foresee_gallery,
        )
    )
