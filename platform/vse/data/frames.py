"""Whether boxes are given in the frame in which pictures are read: upright, as their EXIF data says."""

from collections.abc import Iterable, Iterator, Mapping

from vse.data.images import local_file, upright_size
from vse.data.places import AddressError
from vse.data.records import Image, Records

MOST = 1000  # pictures whose headers are read
_TOLERANCE = 0.03  # of a side; copies are scaled to whole pixels


def other_shapes(records: Records, root: str) -> str:
    """A line about pictures of another shape than the width and height that go with their boxes; empty if none has.

    Headers of at most `MOST` files of this machine are read, evenly chosen.

    Args:
        records: As their source read them, with `sizes`.
        root: The folder of the images.
    """
    images = [image for image in records.images if image.id in records.sizes and image.id in records.boxes]
    checked = images[:: -(-len(images) // MOST) or 1]
    lines = list(_lines(checked, records.sizes, root))
    if not lines:
        return ""
    return (
        f"data set {records.name!r}: {len(lines)} of {len(checked)} checked images with boxes have another shape than "
        f"their width and height say, such as {lines[0]}; state width, height and boxes of the upright picture, or the "
        "boxes are misplaced"
    )


def _lines(images: Iterable[Image], sizes: Mapping[str, tuple[float, float]], root: str) -> Iterator[str]:
    for image in images:
        try:
            found = upright_size(local_file(image.uri, root))
        except AddressError:  # reported where the picture is read
            continue
        if found is None:
            continue
        ((width, height), orientation), stated = found, sizes[image.id]
        if not _agree(width / height, stated[0] / stated[1], min(width, height)):
            turned = f" turned by its EXIF orientation {orientation}" if orientation > 1 else ""
            yield f"{image.uri} (stated {stated[0]:g} x {stated[1]:g}, found {width} x {height}{turned})"


def _agree(one: float, other: float, pixels: int) -> bool:
    """Whether two ratios of width and height differ by no more than rounding to whole pixels explains."""
    return abs(one / other - 1) <= max(_TOLERANCE, 1 / pixels)
