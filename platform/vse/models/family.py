"""What a model family is: encoders of images and captions, and the score of their codes.

A family and an objective share the names of tensors. `forward` reads a batch and returns codes; the objective compares
the codes it knows, and its `gathers` names those of which it needs the rows of every worker.

A batch has one row per caption (B); a worker holds its share of them. Vocabulary ids are 0 padding, 1 <start>, 2 <end>,
3 <unk>. In evaluation a batch has one side only: features with one row per image, or the rows of captions down to
`sentence`.

| batch key | shape, dtype | meaning | present if |
|---|---|---|---|
| pooled, fc1 | (B, channels), float16 of the store | one vector of the caption's image | `Inputs.image` names it |
| map | (B, regions, channels), float16 | regions in row-major order; zeros if absent | `Inputs.image` names it |
| tokens | (B, time), int64 | <start>, words, <end>, padding | always |
| lengths | (B,), int64 | number of tokens with both markers, at least 2 | always |
| objects | (B, M), int64 | nouns; 0 after the last | `Inputs.components` |
| attributes | (B, M, 2), int64 | (adjective, noun) | `Inputs.components` |
| relations | (B, M, 3), int64 | (subject, relation, object) | `Inputs.components` |
| sentence | (B, length), float32 | an untrained vector of the caption | `Inputs.sentence` |
| states | (B, time, length), float32 | one for each of `tokens` instead, zeros behind | `Inputs.states` |
| draw | (B,), int64 | key of caption and epoch, for random numbers | training |
| sample | (B,), int64 | number of the caption in its split | training |
| image_group, text_group | (B,), int64 | equal for captions of one image, of one text | training |
| paired | (B,), bool | whether the image belongs to the caption | `train.unpaired` |
| true_images | (B, images of the split), bool | images of which the caption is true | `objective.mask=truth` |
| negatives | (B, number), int64 | rows of images of the same photograph, -1 behind the last | `data.own_negatives` |
| negative_features | (B, number, channels), float16 | their features | same |
| sibling, has_sibling | (B, length) float32, (B,) bool | vector of another caption of the image | `Inputs.siblings` |
| contrast | (B, adversaries, time), int64 | adversaries of the caption, as tokens | `Inputs.contrast` |
| contrast_lengths | (B, adversaries), int64 | their lengths, 0 if absent | `Inputs.contrast` |
| contrast_states | (B, adversaries, time, length), float32 | states of their tokens | both |
| object_negatives | (B, M, nouns), int64 | nouns that are not in the image | `Objective.negatives` |
| attribute_word_negatives, attribute_noun_negatives | (B, M, words), int64 | replace one of a pair | same |
| relation_negatives | (B, M, triples, 3), int64 | triples with one word replaced | same |
| sampled_relation | (B, 3), int64 | a negative for the other captions, zeros if none | same |
| mentioned_relations | (B, any, 3), int64 | all triples of the image's captions | same |

Codes have the rows of the batch. "Any" objective: ranking, infonce, sigmoid, logistic, cse, embedding_network, jwae,
relational, vsec. All but the first four may read more, `cse` and `jwae` from the families that they name alone.

| codes | shape | emitted by | read by |
|---|---|---|---|
| images, captions | (B, dim) | all but univse, scan, jwae_scan; unit vectors unless `unit_codes` is False | any |
| scores | (B, captions of all workers) | the step, by `scores` of a `pairwise` family | any, instead of both codes |
| listed, is_listed | (B, 1 + number), (B, number) bool | the step, by `listed_scores` | instead of scores |
| regions, words | (B, regions, dim), (B, time, dim) | scan, jwae_scan | `score_parts` |
| images, sentences, bags, bag_mask | (B, dim), (B,) bool | univse, which documents the rest | univse |
| contrast, contrast_mask | (B, adversaries, dim), (B, adversaries) bool | vsec | vsec |
| image_codes, caption_codes and more | (B, dim) | jwae, jwae_scan | jwae |
| middle | (B, layers, dim) | cse | cse |
| siblings, has_sibling | (B, dim), (B,) bool | embedding_network | embedding_network |
| concepts | (B, concepts) | cite, jwae_cite | `score_parts`, cite, jwae_cite |
| image_pools, caption_pools, image_nodes, caption_nodes | (B, pools or nodes, dim) | relational | relational |
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from vse.registry import ComponentConfig

Batch = Mapping[str, Tensor]
Encoded = dict[str, Tensor]


class Inputs(NamedTuple):
    """What a batch must hold for a family. The stages to run follow from it.

    Attributes:
        image: output of the backbone that is read: `pooled`, `map`, or any other.
        components: whether captions are parsed into objects, attributes and relations.
        sentence: whether there is one untrained vector per caption (mean of word vectors, Fisher vector).
        contrast: whether training needs adversaries of each caption.
        states: with `sentence`, whether there is one such vector per word instead.
        siblings: whether training needs the sentence vector of another caption of the same image.
    """

    image: str
    components: bool
    sentence: bool = False
    contrast: bool = False
    states: bool = False
    siblings: bool = False


@dataclass(frozen=True)
class Context:
    """Sizes and word vectors of the data, from which a family is built.

    Attributes:
        vocabulary_size: number of ids, the four markers included.
        feature_dims: number of channels by name of the output.
        word_vectors: (vocabulary, dim), with a row of zeros for a word without a vector; None if none are given.
        sentence_dim: length of a vector of a caption or, for families that read states, of a state.
    """

    vocabulary_size: int
    feature_dims: Mapping[str, int]
    word_vectors: Tensor | None = None
    sentence_dim: int = 0


class Phase(NamedTuple):
    """One optimiser's part of a step.

    Attributes:
        name: passed to `Family.forward`.
        losses: it descends these; None for all.
        parameters: it updates these.
        rate: factor on the learning rate.
        betas: of Adam.
        every: steps between its updates, on the steps k of the run with k % every == every - 1.
    """

    name: str
    losses: frozenset[str] | None
    parameters: tuple[nn.Parameter, ...]
    rate: float = 1.0
    betas: tuple[float, float] = (0.9, 0.999)
    every: int = 1


class Family(nn.Module):
    """Base of all families. A subclass defines `Config`, `inputs`, both encoders and, for another score, `score_parts`.

    `forward(batch)` is the only entry of a training step, so that distributed hooks see it. It returns named tensors
    that an objective compares. Encoders treat each item by itself: no code depends on the rest of the batch.

    Args:
        config: the family's own `Config`.

    Attributes:
        inputs: what a batch must hold.
        inference_parameters: keys of `Config` that `combine` takes too, so that they can be swept without training.
        unit_codes: whether every code is a unit vector (or zero) over its last dimension.
        vectors_of_paper: pre-trained word vectors from which the paper starts; empty if it learns them or reads none.
        vocabulary_buffers: names of buffers with a row for each vocabulary id, apart from those of word tables.
        pairwise: codes of captions that every worker needs, for a family that scores a batch itself (its own images
            against all captions). Empty if the score is the product of two codes.
        reads_word_ids: whether its score depends on the vocabulary ids of words and not only on their vectors, so that
            it has no derivative by single words.
        by_steps: whether it is trained by steps; False if it is fitted in closed form or not trained at all.
        of_one_encoder: whether it compares frozen vectors as they are, so that both must come from one dual encoder.
    """

    inputs: Inputs
    Config: ClassVar[type[ComponentConfig]]
    inference_parameters: tuple[str, ...] = ()
    unit_codes: bool = True
    vectors_of_paper: ClassVar[str] = ""
    vocabulary_buffers: ClassVar[tuple[str, ...]] = ()
    pairwise: ClassVar[frozenset[str]] = frozenset()
    of_one_encoder: ClassVar[bool] = False
    by_steps: ClassVar[bool] = True
    reads_word_ids: bool = False
    _scalars: tuple[str, ...] = ()

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config: Any = config
        self.inputs = self.requires(config)

    @classmethod
    def requires(cls, config: Any) -> Inputs:
        """What batches must hold for a family of this configuration, by default `inputs` of the class."""
        return cls.inputs

    def forward(self, batch: Batch, phase: str = "") -> Encoded:
        """Codes for the objective by name, one row per caption; images are repeated for their captions.

        A family of several phases returns the codes that `phase` compares.
        """
        return {**self.encode_images(batch), **self.encode_captions(batch)}

    def prepared(self, batch: Batch) -> Batch:
        """The batch with indices that `forward` would compute otherwise. The loader calls this on the host."""
        return batch

    def encode_images(self, batch: Batch) -> Encoded:
        """Codes of images by name, one row per image, from `batch[inputs.image]` (images, ...).

        A family with one vector per image returns `images` (images, dim); its objective defines other names.
        """
        raise TypeError(f"{type(self).__name__} does not encode images alone")

    def encode_captions(self, batch: Batch) -> Encoded:
        """Codes of captions by name, one row per caption, from `tokens`, `lengths` and what else `inputs` names.

        A family with one vector per caption returns `captions` (captions, dim). A code depends neither on other rows
        nor on the amount of padding.
        """
        raise TypeError(f"{type(self).__name__} does not encode captions alone")

    def word_vectors(self, words: Int[Tensor, " words"]) -> Float[Tensor, "words dim"] | None:
        """Vectors of words by vocabulary id as the text encoder reads them; None for a family that reads no words."""
        return None

    def score_parts(self, images: Batch, captions: Batch) -> dict[str, Tensor]:
        """Matrices from which `combine` computes the score, by default `score`, the product of both codes.

        Parts are computed once for all values of `inference_parameters`.

        Args:
            images: codes of `encode_images`.
            captions: codes of `encode_captions`.

        Returns:
            Matrices of shape (images, captions), or (1, captions) for one number per caption.
        """
        return {"score": images["images"] @ captions["captions"].T}

    def combine(self, parts: Mapping[str, Tensor], **settings: float) -> Tensor:
        """The scores, higher for pairs that belong together.

        Args:
            parts: matrices of `score_parts`, or a block of each: the computation is element by element.
            **settings: values of `inference_parameters`; the others are as configured or learned.

        Returns:
            Scores of shape (images, captions).
        """
        assert not settings, f"{type(self).__name__} has no inference parameters"
        return parts["score"]

    def scores(self, images: Encoded, captions: Encoded) -> Float[Tensor, "images captions"]:
        """`combine(score_parts(...))` as configured."""
        return self.combine(self.score_parts(images, captions))

    def listed_scores(self, images: Encoded, captions: Encoded) -> Float[Tensor, "captions listed"]:
        """Scores of each caption with images of its own list, as `scores` of these pairs.

        Args:
            images: codes of `encode_images` (captions, listed, ...).
            captions: codes of `encode_captions`.
        """
        return torch.einsum("bld,bd->bl", images["images"], captions["captions"])

    def encode_regions(self, batch: Batch) -> Encoded:
        """Codes of the regions of images, for families that read a map: `regions` (images, regions, dim) and, if some
        are absent, `region_mask` (images, regions)."""
        raise TypeError(f"{type(self).__name__} has no vectors of regions")

    def encode_queries(self, batch: Batch) -> Encoded:
        """Codes of texts to localise in regions, by default the codes of captions."""
        return self.encode_captions(batch)

    def relevance(
        self, images: Encoded, queries: Encoded, temperature: float
    ) -> Float[Tensor, "images queries regions"]:
        """How relevant each region is for each query: a distribution over the regions of an image.

        The softmax over regions of their cosine with the query's vector (UniVSE, eq. 2), unless a family has more
        than one vector of a text.

        Args:
            images: codes of `encode_regions`.
            queries: codes of `encode_queries`.
            temperature: temperature of the softmax.

        Returns:
            Distributions of shape (images, queries, regions), zero for absent regions.
        """
        regions = nn.functional.normalize(images["regions"], dim=-1)
        query = nn.functional.normalize(queries["captions"], dim=-1)
        return masked_softmax(regions @ query.T / temperature, images.get("region_mask")).transpose(1, 2)

    def attention_map(self, images: Encoded, queries: Encoded) -> Float[Tensor, "images queries regions"]:
        """As `relevance`, by the attention over regions from which the family's own score is made."""
        raise TypeError(f"{type(self).__name__} has no attention over regions")

    def phases(self) -> tuple[Phase, ...]:
        """Phases of a step in order: one over all parameters unless a family overrides it; none without `by_steps`."""
        return (Phase("all", None, trainable(self)),) if self.by_steps else ()

    def fit(self, batches: Callable[[], Iterator[Batch]], pairs: Callable[[], Iterator[Batch]] | None = None) -> None:
        """Fit the parts with a closed form before the first step, by default the scale of sentence vectors.

        Args:
            batches: each call iterates over all training captions once, in order. For a family that reads states, the
                batches hold no image features.
            pairs: likewise, over the captions whose image is known (`train.pairs`): what is fitted to the relation of
                images and captions reads only these. None: `batches`.
        """
        name = "states" if self.inputs.states else "sentence"
        for scale in (module for module in self.modules() if isinstance(module, FeatureScale) and not module.images):
            scale.fit(batch[name] for batch in batches())

    def add_scalars(self, initial: Mapping[str, float]) -> None:
        """Register learnable scalars of the objective, such as a temperature, with their initial values."""
        self._scalars = tuple(initial)
        for name, value in initial.items():
            self.register_parameter(name, nn.Parameter(torch.tensor(value)))

    def scalars(self) -> Encoded:
        """Current values of the learnable scalars.

        A family of several phases returns them from `forward` in the phases that use them: DDP considers a parameter
        unused if no output of `forward` depends on it.
        """
        return {name: self.get_parameter(name).clone() for name in self._scalars}


def masked_softmax(
    logits: Float[Tensor, "images regions queries"], mask: Bool[Tensor, "images regions"] | None
) -> Float[Tensor, "images regions queries"]:
    """Softmax over the regions that exist, zero for absent ones and for an image without regions."""
    if mask is None:
        return logits.softmax(1)
    lowest = torch.finfo(logits.dtype).min
    return logits.masked_fill(~mask[..., None], lowest).softmax(1) * mask[..., None]


def trainable(module: nn.Module) -> tuple[nn.Parameter, ...]:
    """Parameters of a module that require a gradient."""
    return tuple(p for p in module.parameters() if p.requires_grad)


class FeatureScale(nn.Module):
    """Scaling of frozen features. Its statistics are part of the checkpoint, so that raw features can be embedded.

    Args:
        channels: number of channels.
        how: `standardize` subtracts each channel's mean over the training images (and regions) and divides by its
            standard deviation. `l2` divides by the norm over channels, as the code of VSE++ assumes. `root` takes the
            signed square root, which brings a few large activations nearer to the others. `none` does nothing.
        images: of image features. The scale of other vectors is fitted by the family's `fit`, with one deviation for
            all channels: the spread of a Fisher vector's principal components carries information, and if there are
            nearly as many components as captions, dividing by each one's deviation would put all captions equally far
            apart.
    """

    mean: Tensor
    std: Tensor

    def __init__(self, channels: int, how: str, images: bool = True) -> None:
        super().__init__()
        self.how, self.images = how, images
        self.register_buffer("mean", torch.zeros(channels))
        self.register_buffer("std", torch.ones(channels))

    @torch.no_grad()
    def fit(self, blocks: Iterator[Tensor]) -> None:
        """Compute mean and standard deviation over blocks of features (..., channels) in float64.

        Regions of zeros in blocks (images, regions, channels) are absent and do not count.
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
        # A constant channel is divided by one, which keeps it at zero instead of amplifying noise.
        variance = (square / count - mean.square()).clamp_min(0)
        std = (variance if self.images else variance.mean().expand_as(variance)).sqrt()
        self.std.copy_(torch.where(std > 1e-6, std, torch.ones_like(std)))

    def forward(self, features: Float[Tensor, "*batch channels"]) -> Float[Tensor, "*batch channels"]:
        features = features.to(self.mean.dtype)
        if self.how == "standardize":
            return (features - self.mean) / self.std
        if self.how == "root":
            magnitude = features.abs()  # at zero the root has no derivative; 1 in its place makes that zero, not NaN
            return features.sign() * torch.where(magnitude > 0, magnitude, torch.ones_like(magnitude)).sqrt()
        return nn.functional.normalize(features, dim=-1) if self.how == "l2" else features


def feature_scales(model: nn.Module) -> list[FeatureScale]:
    """Every module of a model that scales image features."""
    return [m for m in model.modules() if isinstance(m, FeatureScale) and m.images]
