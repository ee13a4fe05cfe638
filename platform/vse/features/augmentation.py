"""Random changes of pictures in training: a part of the picture, resized to the network's square, perhaps mirrored."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import UInt8
from PIL import Image

from vse.data import keyed
from vse.features.transforms import FILTERS, Transform

RATIO = (3 / 4, 4 / 3)  # of width to height of a part
_TRIES = 10  # to find a part that lies within the picture


@dataclass(frozen=True, kw_only=True, slots=True)
class Augmentation:
    """Random resized crop and mirroring, as functions of a key.

    crop_area: smallest share of the picture's area that is kept; with 1 the transform's own square is taken. flip:
    whether half of the pictures are mirrored.
    """

    crop_area: float
    flip: bool

    def __call__(self, image: Image.Image, transform: Transform, key: int) -> UInt8[np.ndarray, "crops size size 3"]:
        """The square of one RGB picture for a 64-bit key, in the transform's size and filter."""
        draws = keyed.uniform(np.array([key], dtype=np.uint64), 4 * _TRIES + 1)[0]
        if self.crop_area < 1:
            box = part_of(image.width, image.height, self.crop_area, draws[1:])
            size = (transform.size, transform.size)
            squares = np.asarray(image.resize(size, FILTERS[transform.interpolation], box=box), dtype=np.uint8)[None]
        else:
            squares = transform(image)
        mirrored = self.flip and draws[0] < 0.5
        return np.ascontiguousarray(squares[:, :, ::-1]) if mirrored else squares


def part_of(width: int, height: int, crop_area: float, draws: np.ndarray) -> tuple[int, int, int, int]:
    """Left, top, right and bottom, in pixels, of a random part of a picture (Szegedy et al., 2015).

    The share of the area is uniform between `crop_area` and 1, and the logarithm of the ratio of the sides is uniform
    between those of `RATIO`. If no try fits into the picture, the largest part in its middle with an allowed ratio is
    taken.

    Args:
        width: of the picture in pixels.
        height: likewise.
        crop_area: smallest share of the area.
        draws: numbers in [0, 1), four for each try.
    """
    lowest, highest = (math.log(ratio) for ratio in RATIO)
    for area, ratio, x, y in draws.reshape(-1, 4).tolist():
        target = width * height * (crop_area + (1 - crop_area) * area)
        sides = math.exp(lowest + (highest - lowest) * ratio)
        columns, rows = round(math.sqrt(target * sides)), round(math.sqrt(target / sides))
        if 0 < columns <= width and 0 < rows <= height:
            left, top = int(x * (width - columns + 1)), int(y * (height - rows + 1))
            return left, top, left + columns, top + rows
    columns, rows = min(width, round(height * RATIO[1])), min(height, round(width / RATIO[0]))
    left, top = (width - columns) // 2, (height - rows) // 2
    return left, top, left + columns, top + rows
