"""Codes of a split: every image and every caption through a trained family, once, for whatever is measured of them."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vse.models.family import Batch, Encoded, Family
from vse.training.batches import blocks, image_batch, text_batch
from vse.training.examples import Examples, Texts

Encode = Callable[[Batch], Encoded]
IMAGES_AT_ONCE = 64
CAPTIONS_AT_ONCE = 512


@dataclass(frozen=True, eq=False)
class Codes:
    """Named tensors of the images (images, ...) and captions (captions, ...) of a split."""

    images: Encoded
    captions: Encoded
    caption_to_image: Tensor


@torch.inference_mode()
def encode_images(family: Family, features: np.ndarray, encode: Encode | None = None) -> Encoded:
    """Codes of images, block by block.

    Args:
        family: The trained family, in eval mode.
        features: (images, ...), the output of the backbone that the family reads.
        encode: Called with each batch; None for the family's `encode_images`.
    """
    assert not family.training, "codes are made in eval mode"
    encode = encode or family.encode_images
    name, device = family.inputs.image, next(family.parameters()).device

    def batches() -> Iterator[tuple[np.ndarray, Encoded]]:
        for rows in blocks(len(features), IMAGES_AT_ONCE):
            yield rows, encode({name: image_batch(features, rows).to(device)})

    return _gathered(batches())


@torch.inference_mode()
def encode_captions(family: Family, texts: Texts, encode: Encode | None = None) -> Encoded:
    """Codes of captions, in their order. Captions are encoded in order of length, so that little is padding.

    Args:
        family: The trained family, in eval mode.
        texts: The captions as ids of the family's vocabulary, with components if it reads them.
        encode: Called with each batch; None for the family's `encode_captions`.
    """
    assert not family.training, "codes are made in eval mode"
    encode = encode or family.encode_captions
    device = next(family.parameters()).device
    order = np.argsort(texts.tokens.lengths, kind="stable")

    def batches() -> Iterator[tuple[np.ndarray, Encoded]]:
        for rows in blocks(len(order), CAPTIONS_AT_ONCE):
            batch = text_batch(texts, order[rows], family.inputs.components)
            yield order[rows], encode({key: value.to(device) for key, value in batch.items()})

    return _gathered(batches())


def encode_examples(family: Family, examples: Examples) -> Codes:
    """Codes of a whole split, images in the order of the split."""
    images = encode_images(family, examples.features[family.inputs.image])
    caption_to_image = torch.from_numpy(examples.image).to(next(family.parameters()).device)
    return Codes(images, encode_captions(family, examples.texts), caption_to_image)


def _gathered(batches: Iterable[tuple[np.ndarray, Encoded]]) -> Encoded:
    """Rows of all blocks in order. Apart from the result, memory holds only the blocks, which are not padded yet."""
    blocks = list(batches)
    assert blocks, "nothing to encode"
    places = [torch.from_numpy(rows) for rows, _ in blocks]
    return {key: _placed(places, [codes[key] for _, codes in blocks]) for key in blocks[0][1]}


def _placed(places: list[Tensor], blocks: list[Tensor]) -> Tensor:
    """Codes over time are padded with zeros to the longest block's."""
    some = blocks[0]
    time = [max(block.shape[1] for block in blocks)] if some.ndim > 1 else []
    values = some.new_zeros(sum(map(len, blocks)), *time, *some.shape[2:])
    for rows, block in zip(places, blocks, strict=True):
        rows = rows.to(block.device)
        if time:
            values[rows, : block.shape[1]] = block
        else:
            values[rows] = block
    return values
