"""Saliency of an image and of a caption's words for their score (VSE-C, section 4.2 and Fig. 2).

Saliency is the magnitude of the Jacobian: of a pixel the Euclidean norm over its channels, of a word the Euclidean norm
over the dimensions of its vector. As in the paper, an image's saliency is divided by its maximum (L∞), and those of a
caption's words by their sum (L1). The paper names no norm over channels or dimensions; the Euclidean one is ours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from math import isqrt

import numpy as np
import PIL.Image
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vse.evaluation.jacobians import Jacobians, OccurrenceTexts, jacobians
from vse.features.forward import Forward
from vse.features.transforms import Transform
from vse.models.family import Family


def normalized_to_maximum(values: Float[np.ndarray, "*shape"]) -> Float[np.ndarray, "*shape"]:
    """Divided by the maximum (L∞) of values that are not negative; zeros stay zeros."""
    largest = values.max(initial=0.0)
    return values / largest if largest > 0 else np.zeros_like(values)


def normalized_to_sum(values: Float[np.ndarray, " words"]) -> Float[np.ndarray, " words"]:
    """Divided by the sum (L1) of values that are not negative; zeros stay zeros."""
    scaled = normalized_to_maximum(values)  # a sum of tiny numbers would underflow
    return scaled / scaled.sum() if scaled.any() else scaled


def mass_inside(values: Float[np.ndarray, "*shape"], covered: Float[np.ndarray, "*shape"]) -> float:
    """Share of saliency that falls into a region, of which `covered` is the share of each pixel; 0 without saliency."""
    total = values.sum()
    return float((values * covered).sum() / total) if total > 0 else 0.0


def changed_words(caption: Sequence[str], adversary: Sequence[str]) -> tuple[list[int], list[int]]:
    """Positions of the words in which a caption and its adversary differ, in the caption and in the adversary.

    The alignment is the one that changes fewer words of the adversary: word by word for texts of one length, or that of
    `difflib`.
    """
    opcodes = SequenceMatcher(None, caption, adversary, autojunk=False).get_opcodes()
    changes = [each for each in opcodes if each[0] != "equal"]
    before = [position for _, first, last, _, _ in changes for position in range(first, last)]
    after = [position for *_, first, last in changes for position in range(first, last)]
    if len(caption) == len(adversary):
        unequal = [k for k, (one, other) in enumerate(zip(caption, adversary, strict=True)) if one != other]
        if len(unequal) <= len(after):
            return unequal, unequal
    return before, after


@dataclass(frozen=True, eq=False)
class Saliency:
    """What a score depends on in an image and in a caption.

    Args:
        score: Of image and caption.
        words: Of the caption.
        shares: Share of each word in the caption's saliency; None for a family that reads no word vectors.
        image: Saliency of each pixel of the resized picture, or of each cell of a map; None if it was not asked for.
        seen: Pixels that the backbone sees; every cell of a map.
        level: `pixels` or `features`.
        unknown: Positions of the words that the family's vocabulary lacks.
    """

    score: float
    words: tuple[str, ...]
    shares: Float[np.ndarray, " words"] | None = None
    image: Float[np.ndarray, "rows columns"] | None = None
    seen: Bool[np.ndarray, "rows columns"] | None = None
    level: str = "pixels"
    unknown: frozenset[int] = frozenset()


@dataclass(frozen=True, eq=False)
class SaliencyReader:
    """Computes the saliency of images and captions for a trained family.

    Args:
        family: In eval mode.
        settings: Its inference parameters that are not as configured.
    """

    family: Family
    settings: Mapping[str, float]

    def of_picture(
        self,
        picture: PIL.Image.Image,
        texts: OccurrenceTexts,
        forward: Forward,
        transform: Transform,
        of_image: Sequence[int],
        geometry: Float[np.ndarray, " numbers"] | None = None,
    ) -> list[Saliency]:
        """Saliency of the pixels of a picture, through the backbone, and of words.

        The picture is taken as the transform resizes it. Features are not rounded to half precision as stored ones are,
        so scores may differ in the fourth digit.

        Args:
            picture: RGB.
            texts: Captions.
            forward: The loaded backbone.
            transform: Of the backbone.
            of_image: Numbers of the captions for which pixels are differentiated.
            geometry: Where the picture lies in another, if the family reads that behind a pooled feature.

        Returns:
            Saliency for each caption; `image` is None for those not in `of_image`.
        """
        output = self.family.inputs.image
        place = None if geometry is None else torch.from_numpy(np.array(geometry)).to(forward.device).float()
        squares = torch.from_numpy(transform(picture)).to(forward.device).float()

        def features(pixels: Tensor) -> Tensor:
            read = forward.network.differentiable(pixels[None])[output]
            return read if place is None else torch.cat([read, place[None]], dim=1)

        result = jacobians(self.family, squares, texts, features=features, of_image=of_image, settings=self.settings)
        ones = np.ones((*squares.shape[:3], 1), dtype=np.float32)
        seen = transform.spread(ones, *picture.size)[..., 0] > 0
        images = {
            number: np.linalg.norm(transform.spread(gradient.double().cpu().numpy(), *picture.size), axis=-1)
            for number, gradient in result.image.items()
        }
        return self._saliencies(texts, result, images, seen, "pixels")

    def of_features(
        self, features: Float[np.ndarray, "*shape"], texts: OccurrenceTexts, of_image: Sequence[int]
    ) -> list[Saliency]:
        """Saliency of the regions of an image's features (regions, channels), and of words.

        Regions without a square grid form one row. A pooled feature (channels) has no regions, so `image` is None.

        Args:
            features: Of the image.
            texts: Captions.
            of_image: Numbers of the captions for which regions are differentiated.

        Returns:
            Saliency for each caption.
        """
        weight = next(self.family.parameters())
        values = torch.from_numpy(np.array(features)).to(weight.device, weight.dtype)
        wanted = of_image if values.ndim == 2 else ()
        result = jacobians(self.family, values, texts, of_image=wanted, settings=self.settings)
        regions = len(values)
        rows = isqrt(regions) if isqrt(regions) ** 2 == regions else 1
        images = {
            number: gradient.double().norm(dim=-1).cpu().numpy().reshape(rows, -1)
            for number, gradient in result.image.items()
        }
        seen = np.ones((rows, regions // rows), dtype=bool)
        return self._saliencies(texts, result, images, seen, "features")

    def _saliencies(
        self,
        texts: OccurrenceTexts,
        result: Jacobians,
        images: Mapping[int, Float[np.ndarray, "rows columns"]],
        seen: Bool[np.ndarray, "rows columns"],
        level: str,
    ) -> list[Saliency]:
        return [
            Saliency(
                score=float(result.scores[number]),
                words=words,
                shares=None if result.words is None else normalized_to_sum(result.words[number]),
                image=normalized_to_maximum(images[number]) if number in images else None,
                seen=seen if number in images else None,
                level=level,
                # word states of a text encoder do not depend on the vocabulary
                unknown=frozenset() if self.family.inputs.states else texts.unknown(number),
            )
            for number, words in enumerate(texts.tokens)
        ]
