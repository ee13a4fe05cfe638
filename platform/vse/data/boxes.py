"""Boxes of objects in files: `objects` of a Karpathy file, and COCO's `instances_*.json`."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from vse.data.reading import field, notice, read_json, required_id
from vse.data.records import Box
from vse.data.regions import DIGITS
from vse.errors import InputError

Annotated = tuple[tuple[Box, ...], tuple[float, float] | None]
"""The boxes of an image, and its width and height if they are stated with the boxes."""
NO_BOXES: Annotated = ((), None)
_ROUNDING = 2  # pixels by which a box may exceed its image


def of_entry(item: Mapping[str, Any], where: str) -> tuple[Box, ...]:
    """The boxes of one image of a Karpathy file.

    Args:
        item: The entry. `objects` lists a `category` and a `box` each: left, top, right and bottom in pixels of
            `width` and `height`. Without `objects` there are no boxes. Those with `iscrowd` hold many objects and are
            left out, as in COCO's files.
        where: The file and the entry, for messages.

    Raises:
        InputError: A key is missing or has another type, a category is empty, or a box is not inside the image or in
            fractions.
    """
    if item.get("objects") is None or not (entries := field(item, "objects", list, where)):
        return ()
    size, boxes = size_of(item, where), list[Box]()
    for number, entry in enumerate(entries):
        place = f"{where}.objects[{number}]"
        corners = numbers(field(entry, "box", list, place), f"{place}: 'box'")
        if not (category := spelled(field(entry, "category", str, place))):
            raise InputError(f"{place}: 'category' is empty; name the object, as in 'dog'")
        if 0 < max(corners) <= 1 < min(size):
            shown = ", ".join(f"{corner:g}" for corner in corners)
            raise InputError(f"{place}: box ({shown}) is in fractions; expected pixels of {size[0]:g} x {size[1]:g}")
        if not entry.get("iscrowd") and (box := in_fractions(category, corners, size, place)):
            boxes.append(box)
    return tuple(boxes)


def of_instances(address: str, images: Iterable[str]) -> dict[str, Annotated]:
    """The boxes in one of COCO's `instances_*.json`. Regions of crowds are left out, because they hold many objects.

    Args:
        address: The file.
        images: COCO's ids of the images that are asked for. Others are passed over.

    Returns:
        Boxes and size by image id, of the images that are asked for and listed.

    Raises:
        InputError: The file is missing or damaged, or lists none of the images.
    """
    data, wanted = read_json(address), set(images)
    names = dict[Any, str]()
    for number, entry in enumerate(field(data, "categories", list, address)):
        where = f"{address}: categories[{number}]"
        names[field(entry, "id", int, where)] = field(entry, "name", str, where)
    own = dict[str, tuple[float, float]]()
    for number, entry in enumerate(field(data, "images", list, address)):
        where = f"{address}: images[{number}]"
        if (image := required_id(entry, "id", where)) in wanted:
            own[image] = size_of(entry, where)
    if not own:
        raise InputError(f"{address}: lists none of the images of this data set; expected the file of its split")
    boxes = dict[str, list[Box]]()
    for number, entry in enumerate(field(data, "annotations", list, address)):
        where = f"{address}: annotations[{number}]"
        image = required_id(entry, "image_id", where)
        if image not in own or entry.get("iscrowd"):
            continue
        if (category := field(entry, "category_id", int, where)) not in names:
            raise InputError(f"{where}: category {category} is not listed under 'categories'")
        left, top, width, height = numbers(field(entry, "bbox", list, where), f"{where}: 'bbox'")
        corners = (left, top, left + width, top + height)
        if box := in_fractions(spelled(names[category]), corners, own[image], where):
            boxes.setdefault(image, []).append(box)
    return {image: (tuple(boxes.get(image, ())), size) for image, size in own.items()}


def of_files(addresses: Iterable[str], images: Iterable[str]) -> dict[str, Annotated]:
    """What `of_instances` returns of several files. Boxes of one image add up. Raises as it does."""
    wanted, annotated = set(images), dict[str, Annotated]()
    for address in addresses:
        for image, (boxes, size) in of_instances(address, wanted).items():
            annotated[image] = annotated[image][0] + boxes if image in annotated else boxes, size
    return annotated


def numbers(values: list[Any], what: str) -> tuple[float, float, float, float]:
    """The four numbers of a box. Raises InputError for anything else."""
    if len(values) != 4 or not all(isinstance(v, (int, float)) and _is_finite(v) for v in values):
        raise InputError(f"{what} must be four numbers, got {values!r:.80}")
    left, top, right, bottom = map(float, values)
    return left, top, right, bottom


def size_of(item: Any, where: str) -> tuple[float, float]:
    """`width` and `height` of an image in pixels. Raises InputError for what is no number."""
    size = (field(item, "width", (int, float), where), field(item, "height", (int, float), where))
    if not all(map(_is_finite, size)):
        raise InputError(f"{where}: 'width' and 'height' must be numbers of pixels, got {size!r:.80}")
    return size


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer of hundreds of digits
        return False


def spelled(category: str) -> str:
    """A category as captions spell it, "Dining_Table" as "dining table"."""
    return " ".join(category.replace("_", " ").lower().split())


def in_fractions(
    label: str, corners: tuple[float, float, float, float], size: tuple[float, float], where: str, caption: str = ""
) -> Box | None:
    """A box with its sides as fractions of the image; None, with a notice, for one without an area inside the image.

    A few of COCO's are lines or points, or lie within a pixel outside of it, as some of Flickr30k Entities do. Sizes
    that were inferred from smaller copies are up to two pixels too small.

    Args:
        label: The category or phrase.
        corners: Left, top, right and bottom in pixels. Up to two pixels outside are cut off, as tools round.
        size: Width and height of the image in the same pixels.
        where: The file and the entry, for messages.
        caption: The id of the caption that holds the phrase.

    Raises:
        InputError: The box is not inside the image, or the image has no size.
    """
    width, height = size
    left, top, right, bottom = corners
    shown = ", ".join(f"{corner:g}" for corner in corners)
    is_line = (left == right and top <= bottom) or (top == bottom and left <= right)
    inside = -_ROUNDING <= left < right <= width + _ROUNDING and -_ROUNDING <= top < bottom <= height + _ROUNDING
    if not is_line:
        if not inside or min(width, height) <= 0:
            raise InputError(f"{where}: box ({shown}) is not inside an image of {width:g} x {height:g} pixels")
        sides = (left / width, top / height, right / width, bottom / height)
        left, top, right, bottom = (min(max(side, 0.0), 1.0) for side in sides)
        if round(left, DIGITS) < round(right, DIGITS) and round(top, DIGITS) < round(bottom, DIGITS):
            return Box(label, left, top, right, bottom, caption)
    notice(f"{where}: box ({shown}) has no area and is left out")
    return None
