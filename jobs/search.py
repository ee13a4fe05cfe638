"""Find images by a sentence: `python jobs/search.py run=univse-scenes-s0-1a2b3c4d "text=a red ball"`."""

import sys

from vse.cli.command import Request, main
from vse.cluster.runtime import set_up_logging
from vse.inference.image_search import SearchOptions
from vse.report.search_page import build_search, plan


def run(request: Request) -> str:
    """Rank, write the page, print the best."""
    set_up_logging()
    return build_search(request)


if __name__ == "__main__":
    sys.exit(
        main(
            "search",
            run,
            description="Find images of a data set or a folder by sentences, or captions of a data set by a picture.",
            options=SearchOptions(),
            plan=plan,
        )
    )
