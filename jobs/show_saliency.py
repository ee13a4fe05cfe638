"""On which pixels and words scores depend: `python jobs/show_saliency.py runs=RUN,OTHER image=FILE caption="..."`."""

import sys

from vse.cli.command import Request, main
from vse.cluster.runtime import set_up_logging
from vse.report.saliency_figure import SaliencyFigureOptions, build_saliency, foresee_saliency
from vse.tracking.shipping import Shipper


def run(request: Request) -> str:
    """Differentiate, draw the figures, and update MLflow."""
    set_up_logging()
    path = build_saliency(request)
    Shipper(request.workspace, request.tracking).ship(wait=10)
    return path


if __name__ == "__main__":
    sys.exit(
        main(
            "show_saliency",
            run,
            description="Draw the pixels and words on which the score of a picture with captions depends. With "
            "phrases, also draw where these are in it; for one run or several.",
            options=SaliencyFigureOptions(),
            plan=foresee_saliency,
        )
    )
