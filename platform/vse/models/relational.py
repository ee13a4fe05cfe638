"""Relational visual-semantic embeddings (Yan, 2019): transformer encoders over a grid of regions and over words.

Sections are those of the thesis. It does not give the following, chosen here: 8 heads, a feed-forward layer as wide as
the space, no dropout, mean pooling, no final normalisation of the nodes, 8 pools with separate weights for each
modality, and captions without markers. In training, left padding shifts a caption's positions at random by up to
`padded_length` minus its length; the thesis pads to the longest caption of the batch, on which a code would then
depend. Nothing attends to padding. Captions are truncated at 48 words (§3.3; §2.3 says characters).
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from vse.config import knob
from vse.errors import InputError
from vse.models import noise
from vse.models.encoders import WordTable, linear_xavier, present, unit
from vse.models.family import Batch, Context, Encoded, Family, FeatureScale, Inputs
from vse.models.gru import within
from vse.models.pooling import pool_regions
from vse.models.word_states import EncodedWords
from vse.registry import ComponentConfig, register
from vse.text.vocabulary import UNKNOWN

PADDING = 920  # stream of the random left padding


class EncoderLayer(nn.Module):
    """Pre-norm transformer layer (§2.1): Z = X + Concat(heads(LN(X))) W^O, X' = Z + FF(LN(Z)).

    The thesis prints X' = X + FF(LN(Z)), which is impossible in its first text layer, where X has another dimension
    than X' (§2.3). If `input_dim` differs from `dim`, Z has no residual X.

    Args:
        input_dim: dimension of X.
        dim: dimension of X'.
        heads: number of attention heads; must divide `dim`.
        hidden: hidden units of the feed-forward layer.
    """

    def __init__(self, input_dim: int, dim: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads, self.size, self.residual = heads, dim // heads, input_dim == dim
        self.before, self.between = nn.LayerNorm(input_dim), nn.LayerNorm(dim)
        self.queries_keys_values = nn.Linear(input_dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.feed_forward = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))

    def forward(
        self, items: Float[Tensor, "batch items input"], mask: Bool[Tensor, "batch items"] | None = None
    ) -> Float[Tensor, "batch items dim"]:
        """X' of items. `mask` is True for items that exist; nothing attends to others, and their rows are undefined."""
        projected = self.queries_keys_values(self.before(items)).unflatten(-1, (3, self.heads, self.size))
        queries, keys, values = projected.permute(2, 0, 3, 1, 4)
        allowed = None if mask is None else mask[:, None, None, :]
        attended = F.scaled_dot_product_attention(queries, keys, values, attn_mask=allowed)
        mixed = self.out(attended.transpose(1, 2).flatten(2))
        if self.residual:
            mixed = items + mixed
        return mixed + self.feed_forward(self.between(mixed))


class NodePools(nn.Module):
    """Learned pools of nodes: p_i = Σ_j α_ij x_j with α_ij = softmax_j(w_i · x_j) (§2.5.1).

    Args:
        dim: dimension of a node.
        pools: number of pools.
    """

    def __init__(self, dim: int, pools: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(pools, dim) / dim**0.5)

    def forward(
        self, nodes: Float[Tensor, "batch nodes dim"], mask: Bool[Tensor, "batch nodes"] | None
    ) -> Float[Tensor, "batch pools dim"]:
        """Pools of the nodes that exist, zero if there are none."""
        scores = nodes @ self.weight.T
        if mask is not None:
            scores = scores.masked_fill(~mask[..., None], torch.finfo(scores.dtype).min)
            nodes = nodes * mask[..., None]  # otherwise all nodes of an image without regions would count
        return scores.softmax(1).mT @ nodes


@register("family", "relational")
class Relational(Family):
    """Codes `images` and `captions` (batch, dim) are unit vectors; the score is their cosine.

    Training adds the codes that structural alignment (§2.5) compares: unit `image_pools` and `caption_pools` (batch,
    pools, dim), or unit `image_nodes` and `caption_nodes` (batch, nodes, dim), zero if absent.

    Args:
        config: sizes and settings.
        context: of the data.
        scale: of image features (see `FeatureScale`).
    """

    vocabulary_buffers = ("known",)
    vectors_of_paper = "fastText's of 300 dimensions (thesis, section 2.3)"

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """Given in the thesis: dim, word_dim, the numbers of layers, max_words. Others are ours."""

        dim: int = knob(1024, "dimension of the joint space", low=1)
        text: str = knob(
            "words", "nodes of a caption: word vectors, or states of text.encoder", choices=("words", "states")
        )
        word_dim: int = knob(300, "dimension of word vectors", low=1, only="text.word_vectors= text=words")
        fixed_words: bool = knob(False, "keep given word vectors fixed", only="text.word_vectors!= text=words")
        image_layers: int = knob(1, "encoder layers over regions", low=1)
        text_layers: int = knob(2, "encoder layers over words", low=1)
        heads: int = knob(8, "attention heads", low=1)
        feedforward_dim: int = knob(1024, "hidden units of the feed-forward layers", low=1)
        pooling: str = knob("avg", "pooling of the nodes", choices=("avg", "max"))
        regions: int = knob(49, "maximum number of regions or tokens of an image", low=1)
        max_words: int = knob(48, "maximum number of words read from a caption", low=1)
        padded_length: int = knob(24, "shorter captions are shifted at random up to this length in training", low=0)
        structure: str = knob("none", "structure that training aligns too", choices=("none", "pool", "attention"))
        pools: int = knob(8, "learned pools", low=1, only="structure=pool")

    @classmethod
    def requires(cls, config: "Relational.Config") -> Inputs:
        """What batches must hold. Raises InputError if attention heads cannot share the dimensions of the space."""
        if config.dim % config.heads:
            raise InputError(f"model.heads={config.heads}: must divide model.dim={config.dim}")
        encoded = config.text == "states"
        return Inputs(image="map", components=False, sentence=encoded, states=encoded)

    def __init__(self, config: "Relational.Config", context: Context, scale: str = "standardize") -> None:
        super().__init__(config)
        dim, channels = config.dim, context.feature_dims["map"]
        self.scale, self.project = FeatureScale(channels, scale), linear_xavier(channels, dim)
        self.words: WordTable | EncodedWords
        if config.text == "states":
            self.words = EncodedWords(context.sentence_dim)
        else:
            self.words = WordTable(context, config.word_dim, config.fixed_words)
        self.register_buffer("known", _known(context))
        self.region_position = nn.Parameter(0.02 * torch.randn(config.regions, dim))
        # Positions reach to the padded length and to the number of words read.
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
        """Codes of both sides and of the structure; in training, captions are shifted at random."""
        regions, region_mask = self._regions(batch["map"])
        words, word_mask = self._words(batch, batch["draw"] if self.training else None)
        encoded = {"images": self._pooled(regions, region_mask), "captions": self._pooled(words, word_mask)}
        if self.config.structure == "pool":
            encoded["image_pools"] = unit(self.image_pools(regions, region_mask))
            encoded["caption_pools"] = unit(self.caption_pools(words, word_mask))
        elif self.config.structure == "attention":
            encoded["image_nodes"] = unit(regions) if region_mask is None else unit(regions) * region_mask[..., None]
            encoded["caption_nodes"] = unit(words) * word_mask[..., None]
        return encoded

    def word_vectors(self, words: Int[Tensor, " words"]) -> Float[Tensor, "words dim"] | None:
        return self.words(words) if isinstance(self.words, WordTable) else None

    def encode_images(self, batch: Batch) -> Encoded:
        """images (batch, dim) from `map` (batch, regions, channels)."""
        return {"images": self._pooled(*self._regions(batch["map"]))}

    def encode_regions(self, batch: Batch) -> Encoded:
        """The nodes of the image graph: regions (batch, regions, dim), and region_mask if some are absent."""
        nodes, mask = self._regions(batch["map"])
        return {"regions": nodes} if mask is None else {"regions": nodes, "region_mask": mask}

    def encode_captions(self, batch: Batch) -> Encoded:
        """captions (batch, dim)."""
        return {"captions": self._pooled(*self._words(batch, None))}

    def _pooled(
        self, nodes: Float[Tensor, "batch nodes dim"], mask: Bool[Tensor, "batch nodes"] | None
    ) -> Float[Tensor, "batch dim"]:
        return unit(pool_regions(nodes, self.config.pooling, mask=mask))

    def _regions(
        self, features: Float[Tensor, "batch regions channels"]
    ) -> tuple[Float[Tensor, "batch regions dim"], Bool[Tensor, "batch regions"] | None]:
        """Nodes of the image graph (§2.2) and their mask."""
        num = features.shape[1]
        if num > self.config.regions:
            most = self.config.regions
            raise InputError(f"model.regions={most}: the features have {num} regions or tokens; set it to {num}")
        mask = present(features)
        nodes = self.project(self.scale(features)) + self.region_position[:num]
        for layer in self.image_layers:
            nodes = layer(nodes, mask)
        return nodes, mask

    def _words(
        self, batch: Batch, draw: Int[Tensor, " batch"] | None
    ) -> tuple[Float[Tensor, "batch words dim"], Bool[Tensor, "batch words"]]:
        """Nodes of the caption graph (§2.3) and their mask. `draw`: keys of the random left padding."""
        tokens, place, mask = self._kept(batch["tokens"][:, 1:], batch["lengths"])
        if draw is not None:
            count = mask.sum(1)
            room = (self.config.padded_length - count).clamp_min(0)
            place = place + (noise.uniform(draw, 1, PADDING)[:, 0] * (room + 1)).long()[:, None]
        vectors = self.words(tokens) if isinstance(self.words, WordTable) else self.words(batch)[:, 1:]
        nodes = vectors + self.word_position[place.clamp(0, len(self.word_position) - 1)]
        for layer in self.text_layers:
            nodes = layer(nodes, mask)
        return nodes, mask

    def _kept(self, tokens: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Words without markers, their positions among the words with a vector, and the mask of the read words.

        A caption without any word with a vector keeps all its words.
        """
        inside = within(lengths - 2, tokens.shape[1])
        tokens = tokens * inside
        known = self.known[tokens] & inside if isinstance(self.words, WordTable) else inside
        known = known | (inside & ~known.any(1, keepdim=True))
        place = known.cumsum(1) - 1
        return tokens, place, known & (place < self.config.max_words)


def _known(context: Context) -> Bool[Tensor, " vocabulary"]:
    """Mask of words with a vector (§3.3): a given one, or any but the markers and <unk>."""
    if context.word_vectors is not None:
        return context.word_vectors.abs().sum(1) > 0
    known = torch.ones(context.vocabulary_size, dtype=torch.bool)
    known[: UNKNOWN + 1] = False
    return known
