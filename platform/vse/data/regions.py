"""Rectangular regions of images: their overlap, and addresses of the form `photo.jpg#xywh=percent:10,20,30,40`.

The fragment is a W3C media fragment: left, top, width and height in percent of the image. Sides are fractions of width
and height with `DIGITS` decimals, which an address keeps exactly.
"""

import re
from collections.abc import Iterable

import numpy as np
from jaxtyping import Float, Shaped
from PIL import Image

DIGITS = 5
_FRAGMENT = re.compile(r"#xywh=percent:([\d.]+),([\d.]+),([\d.]+),([\d.]+)$")

Sides = Float[np.ndarray, "boxes 4"]  # left, top, right, bottom


def iou(
    boxes: Float[np.ndarray, "boxes 4"], others: Float[np.ndarray, "others 4"]
) -> Float[np.ndarray, "boxes others"]:
    """Intersection over union of every pair of boxes; zero for two boxes without an area."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    common = (high - low).clip(min=0).prod(axis=2)
    areas, other_areas = area(boxes), area(others)
    union = areas[:, None] + other_areas[None, :] - common
    return np.divide(common, union, out=np.zeros_like(common), where=union > 0)


def area(boxes: Float[np.ndarray, "boxes 4"]) -> Float[np.ndarray, " boxes"]:
    """Share of the image that each box covers."""
    return (boxes[:, 2:] - boxes[:, :2]).clip(min=0).prod(axis=1)


def around(boxes: Float[np.ndarray, "boxes 4"]) -> Float[np.ndarray, "4"]:
    """The smallest box around some boxes, at least one."""
    return np.concatenate([boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)])


def cleaned(boxes: Shaped[np.ndarray, "boxes 4"]) -> Float[np.ndarray, "kept 4"]:
    """The boxes inside the image with `DIGITS` decimals, without those of no area and without repetitions."""
    boxes = np.round(np.asarray(boxes, dtype=np.float64).reshape(-1, 4).clip(0, 1), DIGITS)
    boxes = boxes[(boxes[:, 2:] > boxes[:, :2]).all(axis=1)]
    first = np.unique(boxes, axis=0, return_index=True)[1]
    return boxes[np.sort(first)]


def region_uri(uri: str, sides: Iterable[float]) -> str:
    """The address of a region of the image at `uri`."""
    left, top, right, bottom = sides
    numbers = (f"{100 * value:.{DIGITS - 2}f}" for value in (left, top, right - left, bottom - top))
    return f"{uri}#xywh=percent:{','.join(number.rstrip('0').rstrip('.') for number in numbers)}"


def split_uri(uri: str) -> tuple[str, str]:
    """(address of the image, fragment with the region); the fragment is empty for a whole image."""
    match = _FRAGMENT.search(uri)
    return (uri[: match.start()], match[0]) if match else (uri, "")


def sides_of(uri: str) -> tuple[float, float, float, float] | None:
    """Left, top, right and bottom of the region at an address; None for a whole image."""
    match = _FRAGMENT.search(uri)
    if match is None:
        return None
    left, top, width, height = map(float, match.groups())
    sides = (left, top, left + width, top + height)
    left, top, right, bottom = (round(side / 100, DIGITS) for side in sides)
    return left, top, right, bottom


def cropped(picture: Image.Image, sides: tuple[float, float, float, float]) -> Image.Image:
    """A region of a picture, at least one pixel wide and high; a pixel that the region touches belongs to it."""
    width, height = picture.size
    left, top = (min(int(side * size + 1e-6), size - 1) for side, size in zip(sides[:2], (width, height), strict=True))
    right, bottom = (int(np.ceil(side * size - 1e-6)) for side, size in zip(sides[2:], (width, height), strict=True))
    return picture.crop((left, top, max(right, left + 1), max(bottom, top + 1)))


def geometry(sides: Float[np.ndarray, "boxes 4"]) -> Float[np.ndarray, "boxes 5"]:
    """Left, top, right, bottom and area, which CITE (Plummer et al., ECCV 2018) appends to the features of a region."""
    return np.concatenate([sides, area(sides)[:, None]], axis=1)
