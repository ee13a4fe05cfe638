"""From a picture of any size to the square of pixels that a backbone reads.

Transforms take PIL images and give 8-bit pixels, a quarter of the bytes of floats; the network normalises them. They
equal torchvision's own preprocessing of PIL images bit for bit.

`crop`: the shorter side to `resize`, then the centre (VSE++, UniVSE). `scale`: the whole picture to the square, aspect
ratio not kept (thesis, 2.2: "scaled to 224×224", no crop). `ten_crop`: four corners, the centre, and their mirror
images (the published `10crop` features). `crop_and_scale`: the squares of `crop` and of `scale`, and their mirrors
(ours). The features of several squares are averaged.

Before a crop, a narrow strip could grow to millions of pixels a side. If it would exceed the limit for pictures, an
UnreadableImage is raised.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, UInt8
from PIL import Image

from vse.data.images import MAX_PIXELS, UnreadableImage

NAMES = ("crop", "scale", "ten_crop", "crop_and_scale")
_SQUARES = {"ten_crop": 10, "crop_and_scale": 4}  # of the transforms that have several
FILTERS = {name.lower(): Image.Resampling[name] for name in ("NEAREST", "BILINEAR", "BICUBIC", "LANCZOS")}


@dataclass(frozen=True, kw_only=True, slots=True)
class Transform:
    """`name` of NAMES, `size` of the square in pixels, `resize` of the shorter side before a crop, and the filter."""

    name: str
    size: int
    resize: int
    interpolation: str = "bilinear"

    @property
    def num_crops(self) -> int:
        """Squares per picture."""
        return _SQUARES.get(self.name, 1)

    def __call__(self, image: Image.Image) -> UInt8[np.ndarray, "crops size size 3"]:
        """The squares of one RGB picture, channels last, 0 to 255. Raises UnreadableImage for a strip too narrow."""
        assert image.mode == "RGB", image.mode
        squares = [np.asarray(square, dtype=np.uint8) for square in self._squares(image)]
        return np.stack(squares)

    def window(self, width: int, height: int) -> tuple[float, float, float, float]:
        """The part of a picture of so many pixels that a square shows: left, top, right and bottom as fractions.

        Raises ValueError for several crops, whose features are averaged.
        """
        if self.num_crops > 1:
            raise ValueError(f"{self.name}: shows several parts of a picture")
        if self.name == "scale":
            return 0.0, 0.0, 1.0, 1.0
        resized = _resized(width, height, self.resize)
        left, top = (round((side - self.size) / 2) / side for side in resized)
        return left, top, left + self.size / resized[0], top + self.size / resized[1]

    def spread(
        self, squares: Float[np.ndarray, "crops size size channels"], width: int, height: int
    ) -> Float[np.ndarray, "rows columns channels"]:
        """Values of the pixels of squares, put back on the resized picture that the squares are cut from.

        Where squares overlap, their values are added, and pixels outside of all squares are zero. This is the transpose
        of cutting and mirroring, so it turns a gradient to squares into the gradient to the resized picture. The whole
        picture of `crop_and_scale` is no cut of it: each of its values is spread evenly over the area of its pixel.

        Args:
            squares: One row for each square, in the order of `__call__`.
            width: Of the picture before it was resized, in pixels.
            height: Likewise.

        Returns:
            Values at the size of the resized picture.
        """
        if self.name == "scale":
            return squares[0]
        columns, rows = _resized(width, height, self.resize)
        places = self._places(columns, rows)
        if self.name == "crop_and_scale":
            centre, whole = squares[:2] + squares[2:, :, ::-1]
            canvas = _spread_evenly(_spread_evenly(whole, rows, 0), columns, 1)
            (x, y) = places[0]
            canvas[y : y + self.size, x : x + self.size] += centre
            return canvas
        canvases = np.zeros((2, rows, columns, squares.shape[-1]), dtype=squares.dtype)  # of the picture, of its mirror
        for number, square in enumerate(squares):
            x, y = places[number % len(places)]
            canvases[number // len(places), y : y + self.size, x : x + self.size] += square
        return canvases[0] + canvases[1][:, ::-1]

    def _squares(self, image: Image.Image) -> list[Image.Image]:
        resample = FILTERS[self.interpolation]
        whole = [image.resize((self.size, self.size), resample)] if self.name in ("scale", "crop_and_scale") else []
        if self.name == "scale":
            return whole
        image = _shorter_side(image, self.resize, resample)
        pictures = [image, _mirrored(image)] if self.name == "ten_crop" else [image]  # as torchvision has it
        places = self._places(image.width, image.height)
        squares = [each.crop((x, y, x + self.size, y + self.size)) for each in pictures for x, y in places]
        return [*squares, *whole, *map(_mirrored, squares + whole)] if whole else squares

    def _places(self, columns: int, rows: int) -> list[tuple[int, int]]:
        """Left and top of the squares cut from a resized picture; the same again from its mirror image."""
        centre = round((columns - self.size) / 2), round((rows - self.size) / 2)
        if self.name != "ten_crop":
            return [centre]
        return [*((x, y) for y in (0, rows - self.size) for x in (0, columns - self.size)), centre]


def _mirrored(image: Image.Image) -> Image.Image:
    return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


def _spread_evenly(values: Float[np.ndarray, "..."], length: int, axis: int) -> Float[np.ndarray, "..."]:
    """Values along an axis spread over another number of equal parts of the same whole; their sum stays."""
    edges = np.linspace(0, values.shape[axis], length + 1)
    ends = np.concatenate([np.zeros_like(values.take([0], axis)), values.cumsum(axis)], axis)
    before = np.minimum(edges.astype(int), values.shape[axis] - 1)
    share = (edges - before).reshape(-1, *[1] * (values.ndim - 1 - axis))
    return np.diff(ends.take(before, axis) + share * values.take(before, axis), axis=axis)


def _resized(width: int, height: int, side: int) -> tuple[int, int]:
    """Size with the shorter side at `side`, the longer one truncated to whole pixels as torchvision does."""
    return (side, int(side * height / width)) if width <= height else (int(side * width / height), side)


def _shorter_side(image: Image.Image, side: int, resample: Image.Resampling) -> Image.Image:
    """The picture with its shorter side at `side`. Raises UnreadableImage if it would be too large."""
    width, height = image.size
    if min(width, height) == side:
        return image
    size = _resized(width, height, side)
    if size[0] * size[1] > MAX_PIXELS:
        raise UnreadableImage(
            f"{width} x {height} pixels are too narrow: with a shorter side of {side} they become "
            f"{size[0]} x {size[1]}, more than {MAX_PIXELS}"
        )
    return image.resize(size, resample)
