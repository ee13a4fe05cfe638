"""What a model family is: encoders of both sides, and how their codes are scored.

A family and an objective meet by the names of tensors. `forward` reads a batch and returns codes; the objective
compares those it knows, and names in its `gathers` those of which it needs the rows of every worker.

A batch has one row per caption (B), of which a worker holds its share. Ids are of the vocabulary: 0 padding, 1 <start>,
2 <end>, 3 <unk>. In evaluation a batch has one side alone: features, one row per image, or what is said of captions
down to `sentence`.

| batch key | shape, dtype | meaning | there where |
|---|---|---|---|
| pooled, fc1 | (B, channels), float16 of the store | one vector of each caption's image | `Inputs.image` names it |
| map | (B, regions, channels), float16 | regions row by row; one of zeros is absent | `Inputs.image` names it |
| tokens | (B, time), int64 | <start>, words, <end>, padding | always |
| lengths | (B,), int64 | tokens, both markers counted; at least 2 | always |
| objects | (B, M), int64 | nouns; 0 behind the last | `Inputs.components` |
| attributes | (B, M, 2), int64 | (adjective, noun) | `Inputs.components` |
| relations | (B, M, 3), int64 | (subject, relation, object) | `Inputs.components` |
| sentence | (B, length), float32 | a vector made without training | `Inputs.sentence` |
| draw | (B,), int64 | a key of caption and epoch, for random numbers of the family's own | training |
| sample | (B,), int64 | number of the caption in its split | training |
| image_group, text_group | (B,), int64 | equal for captions of one image, of one text | training |
| paired | (B,), bool | whether the image is known to be the caption's | `train.unpaired` |
| true_images | (B, images of the split), bool | which images the caption is true of | `objective.mask=truth` |
| sibling, has_sibling | (B, length) float32, (B,) bool | vector of another caption of the image | `Inputs.siblings` |
| contrast | (B, adversaries, time), int64 | adversaries of the caption, as tokens | `Inputs.contrast` |
| contrast_lengths | (B, adversaries), int64 | their lengths, 0 where there is none | `Inputs.contrast` |
| object_negatives | (B, M, nouns), int64 | nouns that the image lacks | `Objective.negatives` |
| attribute_word_negatives, attribute_noun_negatives | (B, M, words), int64 | replace one of a pair | same |
| relation_negatives | (B, M, triples, 3), int64 | triples with one word replaced | same |
| sampled_relation | (B, 3), int64 | a triple lent to the other captions, zeros for none | same |
| mentioned_relations | (B, any, 3), int64 | all triples of the image's captions | same |

Codes keep the batch's rows. "Any" objective: ranking, infonce, sigmoid, logistic, cse, embedding_network, jwae,
relational, vsec; all but the first four read more, of their own families alone (`Objective.families`).

| codes | shape | emitted by | read by |
|---|---|---|---|
| images, captions | (B, dim) | all but univse, scan, jwae_scan, each of unit length or not (`unit_codes`) | any |
| scores | (B, captions of all workers) | the step, by `scores` of a `pairwise` family | any, in place of both codes |
| regions, words | (B, regions, dim), (B, time, dim) | scan, jwae_scan | `score_parts` |
| images, sentences, bags, bag_mask | (B, dim), (B,) bool | univse, which documents the rest | univse |
| contrast, contrast_mask | (B, adversaries, dim), (B, adversaries) bool | vsec | vsec |
| image_codes, caption_codes and more | (B, dim) | jwae, jwae_scan | jwae |
| middle | (B, layers, dim) | cse | cse |
| siblings, has_sibling | (B, dim), (B,) bool | embedding_network | embedding_network |
| image_pools, caption_pools, image_nodes, caption_nodes | (B, pools or nodes, dim) | relational | relational |
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vse.registry import ComponentConfig

Batch = Mapping[str, Tensor]
Encoded = dict[str, Tensor]


class Inputs(NamedTuple):
    """What a batch must hold for a family; the stages to run follow from it."""

    image: str  # "pooled" or "map" (or any named output of the feature store)
    components: bool  # captions are parsed
    sentence: bool = False  # one vector a caption, made without training (mean of word vectors, Fisher vector)
    contrast: bool = False  # adversarial captions of each caption, to train against
    siblings: bool = False  # the sentence vector of another caption of each caption's image, in training


@dataclass(frozen=True)
class Context:
    """What a family learns about the data when it is built.

    `feature_dims` maps an output to its channels; `word_vectors` is None or (vocabulary, dim), zero rows where unknown;
    `sentence_dim` is the length of a caption's vector for families that read one.
    """

    vocabulary_size: int
    feature_dims: Mapping[str, int]
    word_vectors: Tensor | None = None
    sentence_dim: int = 0


class Phase(NamedTuple):
    """One optimiser's share of a step: the losses it descends and the parameters it moves.

    rate: factor on the learning rate; betas: of Adam; every: steps between its updates, on the steps k with
    k % every == every - 1, counted over the whole run.
    """

    name: str
    losses: frozenset[str] | None  # None: all
    parameters: tuple[nn.Parameter, ...]
    rate: float = 1.0
    betas: tuple[float, float] = (0.9, 0.999)
    every: int = 1


class Family(nn.Module):
    """Base of all families; a subclass has `Config`, `inputs`, `forward`, the two encoders and `score_parts`.

    `forward(batch)` is the only entry of a training step, so that distributed hooks see it; it returns named tensors
    that an objective compares. Encoders are local to an item: nothing in them depends on the rest of the batch.
    """

    inputs: Inputs
    Config: ClassVar[type[ComponentConfig]]
    inference_parameters: tuple[str, ...] = ()  # keys of Config that `combine` takes too: swept without training again
    unit_codes: bool = True  # every code is a unit vector (or zero) over its last dimension
    vectors_of_paper: ClassVar[str] = ""  # pre-trained word vectors the paper starts from; empty: learned ones, or none
    # A pairwise family scores a batch itself, its own images against everybody's captions, and the objective compares
    # the scores: these codes of captions travel to every worker. Empty: the score is the product of two codes.
    pairwise: ClassVar[frozenset[str]] = frozenset()
    _scalars: tuple[str, ...] = ()

    @classmethod
    def requires(cls, config: Any) -> Inputs:
        """What batches must hold for a family of this configuration; the stages to run follow from it."""
        raise TypeError(f"{cls.__name__} does not say what it reads")

    def forward(self, batch: Batch, phase: str = "") -> Encoded:
        """Codes by name for the objective, one row a caption of the batch, images repeated as its captions have them.

        A family of several phases makes what `phase` compares.
        """
        return {**self.encode_images(batch), **self.encode_captions(batch)}

    def prepared(self, batch: Batch) -> Batch:
        """A batch with what `forward` would else make of its numbers alone; called on the host, ahead of the step."""
        return batch

    def encode_images(self, batch: Batch) -> Encoded:
        """Codes of images by name, one row an image, from `batch[inputs.image]` (images, ...) alone.

        `images` (images, dim) where the family has one vector an image; others are named as its objective knows them.
        """
        raise TypeError(f"{type(self).__name__} does not encode images alone")

    def encode_captions(self, batch: Batch) -> Encoded:
        """Codes of captions by name, one row a caption, from `tokens` (captions, time), `lengths` (captions,) and what
        `inputs` asks for besides.

        `captions` (captions, dim) where the family has one vector a caption. Nothing depends on the other rows, nor on
        how many zeros stand behind a caption.
        """
        raise TypeError(f"{type(self).__name__} does not encode captions alone")

    def score_parts(self, images: Batch, captions: Batch) -> dict[str, Tensor]:
        """Matrices (images, captions) by name from which `combine` makes the score; one of a single row (1, captions)
        holds a number a caption.

        images: codes of `encode_images`, captions: of `encode_captions`, of any numbers of rows. What the parts cost is
        paid once for all values of `inference_parameters`. Here `score`, the product of both vectors.
        """
        return {"score": images["images"] @ captions["captions"].T}

    def combine(self, parts: Mapping[str, Tensor], **settings: float) -> Tensor:
        """The score matrix (images, captions) of these parts, higher for what belongs together.

        settings: values of some `inference_parameters`; the configured or learned ones stand for the others. Element by
        element, so that parts may be any block of the matrix.
        """
        assert not settings, f"{type(self).__name__} has no inference parameters"
        return parts["score"]

    def scores(self, images: Encoded, captions: Encoded) -> Float[Tensor, "images captions"]:
        """`combine(score_parts(...))` as configured."""
        return self.combine(self.score_parts(images, captions))

    def phases(self) -> tuple[Phase, ...]:
        """Ordered phases of a step; one phase over everything unless a family has an adversary.

        A family that is fitted in closed form has none.
        """
        return (Phase("all", None, trainable(self)),)

    def fit(self, batches: Callable[[], Iterator[Batch]]) -> None:
        """Learn what is learned before the first step: in closed form, from batches of all training captions.

        Each call of `batches` goes over the training captions once, in their order.
        """

    def add_scalars(self, initial: Mapping[str, float]) -> None:
        """Learnable scalars that the objective asks for, such as a temperature."""
        self._scalars = tuple(initial)
        for name, value in initial.items():
            self.register_parameter(name, nn.Parameter(torch.tensor(value)))

    def scalars(self) -> Encoded:
        """The scalars as they are now. A family of several phases returns them from `forward` where they are used: DDP
        takes a parameter for unused in a phase if nothing that `forward` returns comes from it."""
        return {name: self.get_parameter(name).clone() for name in self._scalars}


def trainable(module: nn.Module) -> tuple[nn.Parameter, ...]:
    """The parameters of a module that are learned."""
    return tuple(p for p in module.parameters() if p.requires_grad)


class FeatureScale(nn.Module):
    """Scaling of frozen features; its statistics are part of the checkpoint, so that raw features can be embedded.

    `standardize` subtracts the channel's mean and divides by its standard deviation over the training images (and
    regions), or, of vectors that are no image features, by one deviation for all: the spread of a Fisher vector's
    principal components is what it says, and where they are nearly as many as the captions, dividing by each one's own
    would put all captions equally far apart. `l2` divides by the norm over channels, as the VSE++ code assumes.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, channels: int, how: str, images: bool = True) -> None:
        """`images`: of image features; the scale of other vectors is fitted by its family's `fit`."""
        super().__init__()
        self.how, self.images = how, images
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("std", torch.ones(channels))

    @torch.no_grad()
    def fit(self, blocks: Iterator[Tensor]) -> None:
        """Take mean and standard deviation over blocks of features (..., channels), read once in float64.

        In blocks (images, regions, channels) regions of zeros are absent ones and do not count.
        """
        if self.how != "standardize":
            return
        count, total, square = 0, torch.zeros(1), torch.zeros(1)
        for block in blocks:
            flat = block.reshape(-1, block.shape[-1])
            if block.ndim > 2:
                flat = flat[(flat != 0).any(1)]
            flat = flat.double()
            count, total, square = count + len(flat), total + flat.sum(0), square + flat.square().sum(0)
        count = max(count, 1)
        mean = total / count
        self.mean.copy_(mean)
        # A channel that never changes carries nothing: dividing by one keeps it at zero instead of blowing up noise.
        variance = (square / count - mean.square()).clamp_min(0)
        std = (variance if self.images else variance.mean().expand_as(variance)).sqrt()
        self.std.copy_(torch.where(std > 1e-6, std, torch.ones_like(std)))

    def forward(self, features: Float[Tensor, "*batch channels"]) -> Float[Tensor, "*batch channels"]:
        features = features.to(self.mean.dtype)
        if self.how == "standardize":
            return (features - self.mean) / self.std
        return nn.functional.normalize(features, dim=-1) if self.how == "l2" else features


def feature_scales(model: nn.Module) -> list[FeatureScale]:
    """Every module of a model that scales image features."""
    return [m for m in model.modules() if isinstance(m, FeatureScale) and m.images]
