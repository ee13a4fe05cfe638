"""The first step of extraction: addresses to pixels. Free of torch, so that the tasks that do it start quickly."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vse.data.images import UnreadableImage, open_image
from vse.data.places import AddressError
from vse.features.transforms import Transform

NO_MEMORY = "needs more memory than there is"


@dataclass(frozen=True, slots=True)
class Decoded:
    """Pixels (items, crops, size, size, 3) of the readable images among `ids`, and why the others are not."""

    ids: list[str]
    pixels: np.ndarray
    rejects: list[tuple[str, str]]


def decode(ids: Sequence[str], uris: Sequence[str], root: str, transform: Transform) -> Decoded:
    """Read and transform pictures; one that cannot be read or held becomes a reject with its reason.

    What is no fault of the picture goes through: a store that lets nobody in, a disk or file server that fails.
    """
    good, squares, rejects = [], [], []
    for image, uri in zip(ids, uris, strict=True):
        try:
            squares.append(transform(open_image(uri, root)))
            good.append(image)
        except UnreadableImage as error:
            rejects.append((image, error.reason))
        except MemoryError:  # of one picture; a job that ended here would end here again
            rejects.append((image, NO_MEMORY))
        except AddressError as error:  # a bad row, not a bad job
            rejects.append((image, str(error)))
    shape = (0, transform.num_crops, transform.size, transform.size, 3)
    return Decoded(good, np.stack(squares) if squares else np.empty(shape, np.uint8), rejects)
