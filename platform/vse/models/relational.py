"""Relational visual-semantic embeddings (Yan, 2019): transformer encoders over a grid of regions and over words.

Chapter 2. Not given there and chosen here: 8 heads, a feed-forward layer as wide as the space, no dropout, mean
pooling, no last normalisation of the nodes, 8 pools with weights of their own for each modality, and that captions
carry no markers. Left padding shifts a caption's positions at random in training, by up to `padded_length` minus its
length (the thesis: the batch's longest, which would make a code depend on its company), and not at all in evaluation;
what is padded is attended by nothing. Truncated at 48 words (§3.3; §2.3 says characters).
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from vse.config import knob
from vse.errors import InputError
from vse.models import noise
from vse.models.encoders import WordTable, linear_xavier, present, unit
from vse.models.family import Batch, Context, Encoded, Family, FeatureScale, Inputs
from vse.models.gru import within
from vse.models.pooling import pool_regions
from vse.models.transformer import EncoderLayer
from vse.registry import ComponentConfig, register
from vse.text.vocabulary import UNKNOWN

PADDING = 920  # stream of the random left padding


class NodePools(nn.Module):
    """α_ij = softmax_j(w_i · x_j), p_i = Σ_j α_ij x_j (§2.5.1)."""

    def __init__(self, dim: int, pools: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(pools, dim) / dim**0.5)

    def forward(
        self, nodes: Float[Tensor, "batch nodes dim"], mask: Bool[Tensor, "batch nodes"] | None
    ) -> Float[Tensor, "batch pools dim"]:
        """Pools of the nodes that exist, zero where there is none."""
        scores = nodes @ self.weight.T
        if mask is not None:
            scores = scores.masked_fill(~mask[..., None], torch.finfo(scores.dtype).min)
            nodes = nodes * mask[..., None]  # without it, of an image without regions all would count alike
        return scores.softmax(1).mT @ nodes


@register("family", "relational")
class Relational(Family):
    """`images` and `captions` are unit vectors (batch, dim); the score is their cosine.

    Training adds what structural alignment (§2.5) compares: unit `image_pools` and `caption_pools` (batch, pools, dim),
    or unit `image_nodes` and `caption_nodes` (batch, nodes, dim), zero where there is none.
    """

    vectors_of_paper = "fastText's of 300 dimensions (thesis, section 2.3)"

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """Given: 1024, 300, one layer over regions, two over words, 48 words. Others are ours."""

        dim: int = knob(1024, "dimension of the joint space", low=1)
        word_dim: int = knob(300, "dimension of word vectors", low=1)
        fixed_words: bool = knob(False, "keep given word vectors fixed")
        image_layers: int = knob(1, "encoder layers over regions", low=1)
        text_layers: int = knob(2, "encoder layers over words", low=1)
        heads: int = knob(8, "attention heads", low=1)
        feedforward_dim: int = knob(1024, "hidden units of the feed-forward layers", low=1)
        pooling: str = knob("avg", "pooling of the nodes", choices=("avg", "max"))
        regions: int = knob(49, "most regions or tokens an image may have", low=1)
        max_words: int = knob(48, "words read of a caption", low=1)
        padded_length: int = knob(24, "shorter captions are shifted at random up to this length in training", low=0)
        structure: str = knob("none", "what else training aligns", choices=("none", "pool", "attention"))
        pools: int = knob(8, "learned pools", low=1)

    @classmethod
    def requires(cls, config: "Relational.Config") -> Inputs:
        return Inputs(image="map", components=False)

    def __init__(self, config: "Relational.Config", context: Context, scale: str = "standardize") -> None:
        super().__init__()
        self.config, self.inputs = config, self.requires(config)
        dim, channels = config.dim, context.feature_dims["map"]
        self.scale, self.project = FeatureScale(channels, scale), linear_xavier(channels, dim)
        self.words = WordTable(context, config.word_dim, config.fixed_words)
        self.register_buffer("known", _known(context))
        self.region_position = nn.Parameter(0.02 * torch.randn(config.regions, dim))
        # A caption may begin as late as it could be padded and be as long as it could be read.
        self.word_position = nn.Parameter(
            0.02 * torch.randn(max(config.max_words, config.padded_length), self.words.dim)
        )
        inputs = [self.words.dim] + [dim] * (config.text_layers - 1)
        layer = (config.heads, config.feedforward_dim)
        self.image_layers = nn.ModuleList(EncoderLayer(dim, dim, *layer) for _ in range(config.image_layers))
        self.text_layers = nn.ModuleList(EncoderLayer(size, dim, *layer) for size in inputs)
        if config.structure == "pool":
            self.image_pools, self.caption_pools = NodePools(dim, config.pools), NodePools(dim, config.pools)

    known: Tensor

    def forward(self, batch: Batch, phase: str = "") -> Encoded:
        """Codes of both sides, captions shifted at random in training, and what the structure asks for."""
        regions, region_mask = self._regions(batch["map"])
        words, word_mask = self._words(batch["tokens"], batch["lengths"], batch["draw"] if self.training else None)
        encoded = {"images": self._pooled(regions, region_mask), "captions": self._pooled(words, word_mask)}
        if self.config.structure == "pool":
            encoded["image_pools"] = unit(self.image_pools(regions, region_mask))
            encoded["caption_pools"] = unit(self.caption_pools(words, word_mask))
        elif self.config.structure == "attention":
            encoded["image_nodes"] = unit(regions) if region_mask is None else unit(regions) * region_mask[..., None]
            encoded["caption_nodes"] = unit(words) * word_mask[..., None]
        return encoded

    def encode_images(self, batch: Batch) -> Encoded:
        """images (batch, dim) from `map` (batch, regions, channels)."""
        return {"images": self._pooled(*self._regions(batch["map"]))}

    def encode_captions(self, batch: Batch) -> Encoded:
        """captions (batch, dim)."""
        return {"captions": self._pooled(*self._words(batch["tokens"], batch["lengths"], None))}

    def _pooled(
        self, nodes: Float[Tensor, "batch nodes dim"], mask: Bool[Tensor, "batch nodes"] | None
    ) -> Float[Tensor, "batch dim"]:
        return unit(pool_regions(nodes, self.config.pooling, mask=mask))

    def _regions(
        self, features: Float[Tensor, "batch regions channels"]
    ) -> tuple[Float[Tensor, "batch regions dim"], Bool[Tensor, "batch regions"] | None]:
        """Nodes of the image graph (§2.2) and which there are."""
        num = features.shape[1]
        if num > self.config.regions:
            raise InputError(f"model.regions={self.config.regions}: the features have {num} regions or tokens")
        mask = present(features)
        nodes = self.project(self.scale(features)) + self.region_position[:num]
        for layer in self.image_layers:
            nodes = layer(nodes, mask)
        return nodes, mask

    def _words(
        self, tokens: Int[Tensor, "batch time"], lengths: Int[Tensor, " batch"], draw: Int[Tensor, " batch"] | None
    ) -> tuple[Float[Tensor, "batch words dim"], Bool[Tensor, "batch words"]]:
        """Nodes of the caption graph (§2.3) and which there are; `draw`: keys of the random left padding."""
        tokens, place, mask = self._kept(tokens[:, 1:], lengths)
        if draw is not None:
            count = mask.sum(1)
            room = (self.config.padded_length - count).clamp_min(0)
            place = place + (noise.uniform(draw, 1, PADDING)[:, 0] * (room + 1)).long()[:, None]
        nodes = self.words(tokens) + self.word_position[place.clamp(0, len(self.word_position) - 1)]
        for layer in self.text_layers:
            nodes = layer(nodes, mask)
        return nodes, mask

    def _kept(self, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Words without markers, their places among the words that have a vector, and which of them are read.

        A caption without any known word keeps its unknown ones.
        """
        inside = within(lengths - 2, tokens.shape[1])
        tokens = tokens * inside
        known = self.known[tokens] & inside
        known = torch.where(known.any(1, keepdim=True), known, inside)
        place = known.cumsum(1) - 1
        return tokens, place, known & (place < self.config.max_words)


def _known(context: Context) -> Bool[Tensor, " vocabulary"]:
    """Words that have a vector (§3.3): those given, or all of the vocabulary but <unk>."""
    if context.word_vectors is not None:
        return context.word_vectors.abs().sum(1) > 0
    known = torch.ones(context.vocabulary_size, dtype=torch.bool)
    known[: UNKNOWN + 1] = False
    return known
