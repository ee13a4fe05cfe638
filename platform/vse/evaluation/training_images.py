"""How much of what files name, such as pairs of captions, is of images that a run was trained on."""

import logging
from collections.abc import Collection, Sequence

from vse.evaluation.metrics import Metric
from vse.evaluation.task import Context

log = logging.getLogger(__name__)


def training_metric(name: str, measured: str) -> Metric:
    """The share of what is measured, such as `pairs`, that has a training image."""
    return Metric(name=name, heading=f"{measured} of training images", higher_is_better=None, main=False)


def training_share(context: Context, images: Sequence[Collection[str]], measured: str, key: str) -> float:
    """Percent of pairs or examples with an image that a run was trained on; one warning if there are any.

    Args:
        context: The data set.
        images: Ids of the images of each pair or example.
        measured: What they are, such as `pairs`, for the warning.
        key: The configuration key of the files, with its value.
    """
    seen = sum(any(image in context.training_images for image in each) for each in images)
    if seen:
        log.warning(
            "%s: %d of %d measured %s have an image that the run was trained on; their scores say little about new "
            "images",
            key,
            seen,
            len(images),
            measured,
        )
    return 100.0 * seen / max(len(images), 1)
