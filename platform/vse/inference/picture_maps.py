"""What a trained run sees in a picture of the user's: relevance maps of phrases, and saliency of pixels and words."""

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import PIL.Image
from jaxtyping import Bool, Float

from vse.data.images import UnreadableImage, decode_image, open_image, opened_rgb
from vse.errors import InputError
from vse.evaluation.relevance_maps import Grid, Rectangle, grounded, upsampled
from vse.evaluation.relevance_pictures import DrawnMap, draw_maps
from vse.evaluation.saliency import Saliency, changed_words
from vse.evaluation.saliency_pictures import SaliencyBlock, SaliencyRow, draw_saliency
from vse.inference.items import source_of

Picture = bytes | str | os.PathLike[str] | PIL.Image.Image
"""The bytes of a file, its path or address, or an image of Pillow."""


@dataclass(frozen=True, eq=False)
class RelevanceMap:
    """How relevant each cell of an image is for a phrase.

    Attributes:
        phrase: The phrase.
        values: A distribution over the cells of the map, (rows, columns).
        window: The part of the image that the cells cover: left, top, right and bottom as fractions.
        picture: The image, RGB.
        unknown: Words of the phrase that are not in the run's vocabulary.
    """

    phrase: str
    values: Float[np.ndarray, "rows columns"]
    window: tuple[float, float, float, float]
    picture: PIL.Image.Image = field(repr=False)
    unknown: tuple[str, ...] = ()

    @property
    def grid(self) -> Grid:
        """Where the cells lie in the image."""
        rows, columns = self.values.shape
        return Grid(rows, columns, Rectangle(*self.window))

    def upsampled(self) -> Float[np.ndarray, "height width"]:
        """The map at the size of the image: bilinear between the centres of cells, zero outside the window."""
        return upsampled(self.values, self.grid, self.picture.size)

    def grounded(self) -> Bool[np.ndarray, "height width"]:
        """The grounded area: pixels with at least half of the largest relevance."""
        return grounded(self.upsampled())

    def draw(self) -> PIL.Image.Image:
        """The image, bright where it is relevant, with the grounded area outlined and a cross at the maximum."""
        return _opened(draw_maps([DrawnMap(self.picture, self.values, self.grid, self.phrase)]))


@dataclass(frozen=True, eq=False)
class PictureSaliency:
    """On which pixels and words the scores of an image with captions depend (VSE-C, Fig. 2).

    Attributes:
        captions: The captions.
        scores: Score of the image with each caption.
        pixels: By caption, saliency of each pixel of the resized image, divided by its maximum (captions, rows,
            columns).
        words: For each caption, (word, share of the caption's saliency); None for a family that reads no word vectors.
        picture: The image, RGB.
    """

    captions: tuple[str, ...]
    scores: Float[np.ndarray, " captions"]
    pixels: Float[np.ndarray, "captions rows columns"]
    words: tuple[tuple[tuple[str, float], ...], ...] | None
    picture: PIL.Image.Image = field(repr=False)
    results: tuple[Saliency, ...] = field(repr=False, default=())

    @classmethod
    def of(cls, captions: Sequence[str], results: Sequence[Saliency], picture: PIL.Image.Image) -> "PictureSaliency":
        """From the saliency of each caption, all of them with an image.

        Args:
            captions: The captions as the user gave them.
            results: Saliency of the score with each caption, in their order.
            picture: The image, RGB.
        """
        shares = [
            None if each.shares is None else tuple(zip(each.words, each.shares.tolist(), strict=True))
            for each in results
        ]
        words = tuple(each for each in shares if each is not None)
        return cls(
            tuple(captions),
            np.array([each.score for each in results]),
            np.stack([each.image for each in results if each.image is not None]),
            words if len(words) == len(shares) else None,
            picture,
            tuple(results),
        )

    def draw(self, name: str = "") -> PIL.Image.Image:
        """The image, and each caption with its heat map and shaded words; words that differ from the first caption
        are underlined. `name` stands above each."""
        return _opened(draw_pictures([(name, self)]))


def draw_pictures(
    of_runs: Sequence[tuple[str, PictureSaliency]], labels: Sequence[str] = (), note: str = "", title: str = ""
) -> bytes:
    """A PNG of the saliency of one picture by several runs, one below the other for each caption.

    Args:
        of_runs: Name and saliency of each run, all of the same picture and captions.
        labels: What each caption is; by default, their numbers if there are several.
        note: A line at the bottom.
        title: A line at the top.
    """
    first, rows = of_runs[0][1], list[SaliencyRow]()
    numbers = [f"caption {number}" for number in range(1, len(first.captions) + 1)]
    for number, label in enumerate(labels or (numbers if len(numbers) > 1 else ["caption"])):
        results = [each.results[number] for _, each in of_runs]
        _, changed = changed_words(first.results[0].words, results[0].words)
        rows.append(SaliencyRow(label, results, changed))
    return draw_saliency([SaliencyBlock(first.picture, title, rows)], [name for name, _ in of_runs], note)


def picture_of(source: Picture) -> PIL.Image.Image:
    """The picture in an image, the bytes of a file, or at a path or address, RGB.

    Raises:
        InputError: It cannot be read.
    """
    try:
        picture = source_of(source)
        if isinstance(picture, PIL.Image.Image):
            return opened_rgb(picture)
        return decode_image(picture) if isinstance(picture, bytes) else open_image(picture)
    except UnreadableImage as error:
        name = f"image {source}" if isinstance(source, str | os.PathLike) else "image"
        raise InputError(f"{name}: {error.reason}") from None


def _opened(png: bytes) -> PIL.Image.Image:
    return PIL.Image.open(io.BytesIO(png)).convert("RGB")
