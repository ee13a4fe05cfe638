"""The pictures of a split, decoded and augmented for training a backbone. Free of torch but for the batch it makes."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from vse.data import keyed
from vse.data.images import UnreadableImage, open_image
from vse.data.places import AddressError
from vse.data.records import Image
from vse.errors import InputError
from vse.features.augmentation import Augmentation
from vse.features.transforms import Transform

PIXELS, PIXEL_ROW = "pixels", "pixel_row"  # in a batch: distinct images, and the image of each row

Squares = UInt8[np.ndarray, "images crops size size 3"]


@dataclass(frozen=True, eq=False)
class Pictures:
    """Where the images of a split are, and how they become squares of pixels.

    Plain data, so that other processes can decode too. What augmentation draws belongs to the seed, the epoch and the
    id of an image, whichever process decodes it and in whatever order.
    """

    images: tuple[Image, ...]
    root: str
    transform: Transform
    augmentation: Augmentation
    seed: int

    def augmented(self, rows: Sequence[int], epoch: int) -> Squares:
        """Squares of the images in these rows, as training sees them in an epoch."""
        numbers = np.array([_number(self.images[row].id) for row in rows], dtype=np.uint64)
        keys = keyed.keys(self.seed, epoch, "augment", numbers)
        return self._stacked(self.one(row, int(key)) for row, key in zip(rows, keys, strict=True))

    def plain(self, rows: Sequence[int]) -> Squares:
        """Squares of the images in these rows, as the backbone's own transform gives them."""
        return self._stacked(self.one(row) for row in rows)

    def _stacked(self, squares: Iterable[np.ndarray]) -> Squares:
        size = self.transform.size
        return np.array(list(squares), np.uint8).reshape(-1, self.transform.num_crops, size, size, 3)

    def one(self, row: int, key: int | None = None) -> UInt8[np.ndarray, "crops size size 3"]:
        """The squares of one image, augmented for a key if there is one. Raises InputError if it cannot be read."""
        image = self.images[row]
        try:
            picture = open_image(image.uri, self.root)
            return self.transform(picture) if key is None else self.augmentation(picture, self.transform, key)
        except (UnreadableImage, AddressError) as error:
            raise InputError(
                f"image {image.id!r}: could be read when features were extracted, but now {error}; restore the file"
            ) from None


def _number(image: str) -> int:
    """64 bits that belong to the id of an image."""
    return int.from_bytes(hashlib.sha256(image.encode()).digest()[:8], "little")


class PixelBatches:
    """The image half of training batches: pixels of the distinct images in place of features.

    `threads` decode at the same time, unless another function of rows and epoch does it, `decode`.
    """

    def __init__(
        self, pictures: Pictures, threads: int = 1, decode: Callable[[Sequence[int], int], Squares] | None = None
    ) -> None:
        self.pictures, self.threads = pictures, threads
        self.decode = decode or self._decoded

    def __call__(self, images: Tensor, epoch: int) -> dict[str, Tensor]:
        """pixels (distinct images, crops, size, size, 3), 8 bits; pixel_row (batch,): the image of each row."""
        distinct, places = np.unique(images.numpy(), return_inverse=True)
        squares = self.decode(distinct.tolist(), epoch)
        return {PIXELS: torch.from_numpy(squares), PIXEL_ROW: torch.from_numpy(places.reshape(-1))}

    def _decoded(self, rows: Sequence[int], epoch: int) -> Squares:
        if self.threads == 1 or not len(rows):
            return self.pictures.augmented(rows, epoch)
        parts = [part.tolist() for part in np.array_split(np.array(rows), self.threads) if len(part)]
        with ThreadPoolExecutor(self.threads, "decode") as pool:
            return np.concatenate(list(pool.map(lambda part: self.pictures.augmented(part, epoch), parts)))
