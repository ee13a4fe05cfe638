"""The first step of extraction: addresses to pixels. Free of torch, so tasks that only decode start quickly."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import PIL.Image
from jaxtyping import UInt8

from vse.data.images import UnreadableImage, decode_image, open_image, opened_rgb
from vse.data.places import AddressError
from vse.features.transforms import Transform


@dataclass(frozen=True, slots=True)
class Decoded:
    """Pixels (items, crops, size, size, 3) of the readable images among `ids`, and why the others are not."""

    ids: list[str]
    pixels: np.ndarray
    rejects: list[tuple[str, str]]


def decode(ids: Sequence[str], uris: Sequence[str], root: str, transform: Transform) -> Decoded:
    """Read and transform pictures; one that cannot be read or held becomes a reject with its reason.

    Errors of the storage are raised: missing credentials, a disk or file server that fails.

    Args:
        ids: ids of the images.
        uris: address of each image, below `root`.
        root: folder or address of the data set.
        transform: cuts squares from a picture, as the backbone reads them.
    """
    decoded, squares, rejects = [], [], []
    for image, uri in zip(ids, uris, strict=True):
        try:
            squares.append(read_squares(uri, root, transform))
            decoded.append(image)
        except UnreadableImage as error:
            rejects.append((image, error.reason))
    shape = (0, transform.num_crops, transform.size, transform.size, 3)
    return Decoded(decoded, np.stack(squares) if squares else np.empty(shape, np.uint8), rejects)


def read_squares(
    picture: bytes | str | PIL.Image.Image, root: str, transform: Transform
) -> UInt8[np.ndarray, "crops size size 3"]:
    """The squares of one picture.

    Args:
        picture: an image, the bytes of a file, or an address below `root`.
        root: folder or address of the data set; only read for an address.
        transform: cuts the squares, as the backbone reads them.

    Raises:
        UnreadableImage: for every fault of the picture or of its address.
    """
    try:
        if isinstance(picture, PIL.Image.Image):
            return transform(opened_rgb(picture))
        return transform(decode_image(picture) if isinstance(picture, bytes) else open_image(picture, root))
    except MemoryError:  # of one picture; a job that ended here would end here again
        raise UnreadableImage("needs more memory than there is") from None
    except AddressError as error:  # its path leaves the root: a bad row, not a bad job
        raise UnreadableImage(str(error)) from None
