"""What exactly is measured: which images, which captions, in how many folds."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from vse.errors import InputError


class TooFewImagesError(InputError):
    """A split has fewer images than a protocol takes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Fold:
    """Positions of a fold's images and captions in the split, and the caption -> image vector within the fold."""

    images: np.ndarray
    captions: np.ndarray
    caption_to_image: np.ndarray


@dataclass(frozen=True, kw_only=True, slots=True)
class Protocol:
    """One published way of measuring. The papers use different COCO splits, so numbers carry their protocol.

    `num_images`: the first so many images (all when None), divided into `folds` consecutive equal parts whose results
    are averaged. `captions_per_image`: the first so many of each image (all when None). `chosen`: positions of the
    images that are kept of these (all when None), in one fold. `selection` says what chose the checkpoint, for tables
    only.
    """

    name: str
    split: str = "test"
    num_images: int | None = None
    folds: int = 1
    captions_per_image: int | None = None
    chosen: tuple[int, ...] | None = None
    selection: str = "validation rsum"

    def select(self, caption_to_image: np.ndarray, num_images: int) -> Iterator[Fold]:
        """The folds of a split with `num_images` images.

        Raises TooFewImagesError, or InputError where parts would differ in size.
        """
        total = num_images if self.num_images is None else self.num_images
        if total > num_images:
            raise TooFewImagesError(f"protocol {self.name}: needs {total} images, split {self.split} has {num_images}")
        if self.folds < 1 or total % self.folds:
            raise InputError(f"protocol {self.name}: {total} images cannot be divided into {self.folds} equal folds")
        caption_to_image = np.asarray(caption_to_image, dtype=np.int64)
        nth = _order_within_image(caption_to_image)
        size = total // self.folds
        for fold in range(self.folds):
            first, last = fold * size, (fold + 1) * size
            wanted = (caption_to_image >= first) & (caption_to_image < last)
            if self.captions_per_image is not None:
                wanted &= nth < self.captions_per_image
            images = np.arange(first, last)
            if self.chosen is not None:
                assert self.folds == 1, "images are chosen in one fold"
                images = np.intersect1d(images, self.chosen)
                wanted &= np.isin(caption_to_image, images)
            captions = np.flatnonzero(wanted)
            yield Fold(
                images=images, captions=captions, caption_to_image=np.searchsorted(images, caption_to_image[captions])
            )


def complete_images(
    caption_to_image: Int[np.ndarray, " captions"], adversaries: Mapping[str, np.ndarray], least: int
) -> Int[np.ndarray, " complete"]:
    """The images all of whose captions have enough adversaries of each class (VSE-C, section 4.1), ascending.

    Args:
        caption_to_image: An image without captions is not complete.
        adversaries: By class, the caption of each adversary.
        least: Adversaries of each class that every caption needs.
    """
    counts = [np.bincount(each, minlength=len(caption_to_image)) for each in adversaries.values()]
    short = (np.stack(counts) < least).any(0)
    return np.setdiff1d(caption_to_image, caption_to_image[short])


def _order_within_image(caption_to_image: np.ndarray) -> np.ndarray:
    """For each caption, how many captions of the same image come before it."""
    order = np.argsort(caption_to_image, kind="stable")
    ranked = caption_to_image[order]
    starts = np.searchsorted(ranked, ranked, side="left")
    nth = np.empty(len(caption_to_image), dtype=np.int64)
    nth[order] = np.arange(len(caption_to_image)) - starts
    return nth


WHOLE_SPLIT = Protocol(name="whole split")
PUBLISHED = {
    # VSE++ and SCAN: the mean over five folds of the 5,000 test images
    "coco_1k_folds": Protocol(name="COCO 1K, five folds", num_images=5000, folds=5, captions_per_image=5),
    # Papers that measure on 1,000 of the 5,000 images, none of which says that it takes the first: jWAE (section 5.1),
    # the thesis (section 3.4), UniVSE (supplement B.2), and VSE-C (section 4.1), which selects images whose captions
    # have twenty adversaries of every class each: `measure.selection`
    "coco_1k_first": Protocol(name="COCO 1K, first 1,000", num_images=1000, captions_per_image=5),
    "coco_5k": Protocol(name="COCO 5K", num_images=5000, captions_per_image=5),
    "flickr_1k": Protocol(name="Flickr 1K", num_images=1000, captions_per_image=5),
}
