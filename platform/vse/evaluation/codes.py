"""Codes of a split: every image and every caption through a trained family, once, for whatever is measured of them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vse.data.batches import blocks, image_batch, text_batch
from vse.data.examples import Examples, Texts
from vse.models.family import Batch, Encoded, Family

Encode = Callable[[Batch], Encoded]
IMAGES_AT_ONCE = 64
CAPTIONS_AT_ONCE = 512


@dataclass(frozen=True, eq=False)
class Codes:
    """Named tensors of the images (images, ...) and captions (captions, ...) of a split; owner: caption -> image."""

    images: Encoded
    captions: Encoded
    owner: Tensor


@torch.inference_mode()
def encode_images(family: Family, features: np.ndarray, encode: Encode | None = None) -> Encoded:
    """Codes of images given their features (images, ...), block by block; the family must be in eval mode.

    encode: instead of the family's `encode_images`.
    """
    assert not family.training, "codes are made in eval mode"
    encode = encode or family.encode_images
    name, device = family.inputs.image, next(family.parameters()).device

    def batches() -> Iterator[Encoded]:
        for rows in blocks(len(features), IMAGES_AT_ONCE):
            yield encode({name: image_batch(features, rows).to(device)})

    return _concatenated(batches())


@torch.inference_mode()
def encode_captions(family: Family, texts: Texts, encode: Encode | None = None) -> Encoded:
    """Codes of captions, in their order. Captions are encoded in order of length, so that little is padding."""
    assert not family.training, "codes are made in eval mode"
    encode = encode or family.encode_captions
    device = next(family.parameters()).device
    order = np.argsort(texts.tokens.lengths, kind="stable")

    def batches() -> Iterator[Encoded]:
        for rows in blocks(len(order), CAPTIONS_AT_ONCE):
            batch = text_batch(texts, order[rows], family.inputs.components)
            yield encode({key: value.to(device) for key, value in batch.items()})

    sorted_codes = _concatenated(batches())
    place = torch.from_numpy(np.argsort(order)).to(device)
    return {key: value[place] for key, value in sorted_codes.items()}


def encode_examples(family: Family, examples: Examples) -> Codes:
    """Codes of a whole split, images in the order of the split."""
    images = encode_images(family, examples.features[family.inputs.image])
    owner = torch.from_numpy(examples.image).to(next(family.parameters()).device)
    return Codes(images, encode_captions(family, examples.texts), owner)


def _concatenated(batches: Iterator[Encoded]) -> Encoded:
    parts = list(batches)
    assert parts, "nothing to encode"
    return {key: _stacked([part[key] for part in parts]) for key in parts[0]}


def _stacked(rows: list[Tensor]) -> Tensor:
    """Rows of all blocks; codes over time are padded with zeros to the longest block's."""
    if rows[0].ndim > 1:
        longest = max(each.shape[1] for each in rows)
        rows = [
            torch.cat([each, each.new_zeros(len(each), longest - each.shape[1], *each.shape[2:])], dim=1)
            if each.shape[1] < longest
            else each
            for each in rows
        ]
    return torch.cat(rows)
