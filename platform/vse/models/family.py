"""What a model family is: encoders of both sides, and how their codes are scored."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vse.registry import ComponentConfig

Batch = Mapping[str, Tensor]
Encoded = dict[str, Tensor]


class Inputs(NamedTuple):
    """What a batch must hold for a family: the feature output its images need and whether captions are parsed."""

    image: str  # "pooled" or "map" (or any named output of the feature store)
    components: bool


@dataclass(frozen=True)
class Context:
    """What a family learns about the data when it is built.

    `feature_dims` maps an output to its channels; `word_vectors` is None or (vocabulary, dim), zero rows where unknown.
    """

    vocabulary_size: int
    feature_dims: Mapping[str, int]
    word_vectors: Tensor | None = None


class Phase(NamedTuple):
    """One optimiser's share of a step: the losses it descends and the parameters it moves."""

    name: str
    losses: frozenset[str] | None  # None: all
    parameters: tuple[nn.Parameter, ...]


class Family(nn.Module):
    """Base of all families; a subclass has `Config`, `inputs`, `forward`, the two encoders and `score_parts`.

    `forward(batch)` is the only entry of a training step, so that distributed hooks see it; it returns named tensors
    that an objective compares. Encoders are local to an item: nothing in them depends on the rest of the batch.
    """

    inputs: Inputs
    Config: ClassVar[type[ComponentConfig]]
    knobs: ClassVar[tuple[str, ...]] = ()  # arguments of `combine` that may be swept without training again

    @classmethod
    def requires(cls, config: Any) -> Inputs:
        """What batches must hold for a family of this configuration; the stages to run follow from it."""
        raise TypeError(f"{cls.__name__} does not say what it reads")

    def forward(self, batch: Batch) -> Encoded:
        """Named tensors for the objective; keys in `images` and `captions` have one row an item."""
        return {**self.encode_images(batch), **self.encode_captions(batch)}

    def encode_images(self, batch: Batch) -> Encoded:
        """Codes of the images of a batch, first dimension = images."""
        raise TypeError(f"{type(self).__name__} does not encode images alone")

    def encode_captions(self, batch: Batch) -> Encoded:
        """Codes of the captions of a batch, first dimension = captions."""
        raise TypeError(f"{type(self).__name__} does not encode captions alone")

    def score_parts(self, images: Batch, captions: Batch) -> dict[str, Tensor]:
        """Matrices images x captions from which `combine` makes the score."""
        return {"score": images["images"] @ captions["captions"].T}

    def combine(self, parts: Mapping[str, Tensor], **knobs: float) -> Tensor:
        """The score matrix at given knobs; configured values where none are given."""
        assert not knobs, f"{type(self).__name__} has no knobs"
        return parts["score"]

    def scores(self, images: Encoded, captions: Encoded) -> Float[Tensor, "images captions"]:
        """`combine(score_parts(...))` at the configured knobs."""
        return self.combine(self.score_parts(images, captions))

    def phases(self) -> tuple[Phase, ...]:
        """Ordered phases of a step; one phase over everything unless a family has an adversary."""
        return (Phase("all", None, tuple(p for p in self.parameters() if p.requires_grad)),)


class FeatureScale(nn.Module):
    """Scaling of frozen features; its statistics are part of the checkpoint, so that raw features can be embedded.

    `standardize` subtracts the channel's mean and divides by its standard deviation over the training images (and
    regions); `l2` divides by the norm over channels, as the VSE++ code assumes of its inputs.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, channels: int, how: str) -> None:
        super().__init__()
        self.how = how
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("std", torch.ones(channels))

    @torch.no_grad()
    def fit(self, blocks: Iterator[Tensor]) -> None:
        """Take mean and standard deviation over blocks of features (..., channels), read once in float64."""
        if self.how != "standardize":
            return
        count, total, square = 0, torch.zeros(1), torch.zeros(1)
        for block in blocks:
            flat = block.reshape(-1, block.shape[-1]).double()
            count, total, square = count + len(flat), total + flat.sum(0), square + flat.square().sum(0)
        mean = total / count
        self.mean.copy_(mean)
        # A channel that never changes carries nothing: dividing by one keeps it at zero instead of blowing up noise.
        std = (square / count - mean.square()).clamp_min(0).sqrt()
        self.std.copy_(torch.where(std > 1e-6, std, torch.ones_like(std)))

    def forward(self, features: Float[Tensor, "*batch channels"]) -> Float[Tensor, "*batch channels"]:
        features = features.to(self.mean.dtype)
        if self.how == "standardize":
            return (features - self.mean) / self.std
        return nn.functional.normalize(features, dim=-1) if self.how == "l2" else features


def feature_scales(model: nn.Module) -> list[FeatureScale]:
    """Every scaling module of a model."""
    return [m for m in model.modules() if isinstance(m, FeatureScale)]
