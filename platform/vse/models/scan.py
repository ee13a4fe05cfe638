"""SCAN (Lee et al., 2018): every word attends to the regions of an image (t-i), or every region to the words (i-t).

Its paper is not among our sources; equations are as the relational thesis (§1.4.5) prints them. Negative similarities
are set to zero as printed; the public code keeps a tenth of them (`slope` 0.1). Regions are the cells of a map, or
ready-made ones. Captions keep their markers as in the public code.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vse.config import knob
from vse.models.cross_attention import Attention, cross_attention, region_attention, word_shares
from vse.models.encoders import WordTable, linear_xavier, present, unit
from vse.models.family import Batch, Context, Encoded, Family, FeatureScale, Inputs, masked_softmax
from vse.models.word_states import TEXT, TEXTS, word_layers
from vse.registry import ComponentConfig, register

AGGREGATES = ("lse", "mean", "max", "sum")


@register("family", "scan")
class SCAN(Family):
    """Codes `regions` (images, regions, dim) and `words` (captions, time, dim) are unit vectors, zero if absent.

    Args:
        config: sizes and settings.
        context: of the data.
        scale: of image features (see `FeatureScale`).
    """

    pairwise = frozenset({"words"})

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """Values published for COCO."""

        dim: int = knob(1024, "dimension of regions and words", low=1)
        text: str = knob("words", TEXT, choices=TEXTS)
        word_dim: int = knob(300, "dimension of learned word vectors", low=1, only="text.word_vectors= text=words")
        fixed_words: bool = knob(False, "keep given word vectors fixed", only="text.word_vectors!= text=words")
        direction: str = knob("t2i", "what attends: words (t2i), regions (i2t) or both", choices=("t2i", "i2t", "both"))
        weight: float = knob(0.5, "both: share of t2i in the score", low=0, high=1, only="direction=both")
        aggregate: str = knob("lse", "aggregation of the relevance of all words or regions", choices=AGGREGATES)
        t2i_softmax: float = knob(
            9.0, "inverse temperature of the words' attention", above=0, only="direction=t2i|both"
        )
        t2i_lse: float = knob(6.0, "factor of LogSumExp over words", above=0, only="direction=t2i|both aggregate=lse")
        i2t_softmax: float = knob(
            4.0, "inverse temperature of the regions' attention", above=0, only="direction=i2t|both"
        )
        i2t_lse: float = knob(
            20.0, "factor of LogSumExp over regions (Flickr30k: 5)", above=0, only="direction=i2t|both aggregate=lse"
        )
        slope: float = knob(
            0.0, "slope of negative similarities: 0 as printed, 0.1 as in the public code", low=0, high=1
        )

    @classmethod
    def requires(cls, config: "SCAN.Config") -> Inputs:
        encoded = config.text != "words"
        return Inputs(image="map", components=False, sentence=encoded, states=encoded)

    def __init__(self, config: "SCAN.Config", context: Context, scale: str = "standardize") -> None:
        super().__init__(config)
        self.inference_parameters = ("weight",) if config.direction == "both" else ()
        channels = context.feature_dims["map"]
        self.scale = FeatureScale(channels, scale)
        self.project = linear_xavier(channels, config.dim)
        self.vectors, self.states = word_layers(context, config)

    def word_vectors(self, words: Int[Tensor, " words"]) -> Float[Tensor, "words dim"] | None:
        return self.vectors(words) if isinstance(self.vectors, WordTable) else None

    def encode_images(self, batch: Batch) -> Encoded:
        """regions (batch, regions, dim) from `map` (batch, regions, channels)."""
        features = batch["map"]
        regions, mask = unit(self.project(self.scale(features))), present(features)
        return {"regions": regions if mask is None else regions * mask[..., None]}

    def encode_captions(self, batch: Batch) -> Encoded:
        """words (batch, time, dim): the states of a bidirectional GRU, mean of both directions; or of the encoder."""
        table, tokens = self.vectors.rows(batch)
        return {"words": unit(self.states(table, tokens, batch["lengths"]))}

    def encode_regions(self, batch: Batch) -> Encoded:
        """The regions of `encode_images`; absent ones are zero."""
        return self.encode_images(batch)

    def relevance(
        self, images: Encoded, queries: Encoded, temperature: float
    ) -> Float[Tensor, "images queries regions"]:
        """The softmax over regions of the mean cosine with the text's words, markers left out.

        The attention of the score is `attention_map`. It divides a region's similarities by their norm over all words,
        so a region that resembles a text of one word a little gets as much as one that resembles it well.

        Args:
            images: codes with `regions`.
            queries: codes of texts with `words`.
            temperature: temperature of the softmax.

        Returns:
            Distributions of shape (images, queries, regions), zero for absent regions.
        """
        regions, words = images["regions"], queries["words"]
        logits = torch.einsum("ird,qtd->irq", regions, words * word_shares(words)[..., None]) / temperature
        return masked_softmax(logits, (regions != 0).any(-1)).transpose(1, 2)

    def attention_map(self, images: Encoded, queries: Encoded) -> Float[Tensor, "images queries regions"]:
        """Attention as in the score (see `region_attention`), of both directions weighted as there."""
        both = (("t2i", self.config.weight), ("i2t", 1 - self.config.weight))
        shares = both if self.config.direction == "both" else ((self.config.direction, 1.0),)
        maps = [s * region_attention(images["regions"], queries["words"], self.attention(d)) for d, s in shares]
        return torch.stack(maps).sum(0)

    def attention(self, direction: str) -> Attention:
        """The configured attention of one direction."""
        c = self.config
        softmax, lse = (c.t2i_softmax, c.t2i_lse) if direction == "t2i" else (c.i2t_softmax, c.i2t_lse)
        return Attention(direction, softmax, c.aggregate, lse, c.slope)

    def score_parts(self, images: Batch, captions: Batch) -> dict[str, Tensor]:
        """t2i and i2t (images, captions), as the direction says."""
        chosen = ("t2i", "i2t") if self.config.direction == "both" else (self.config.direction,)
        return {d: cross_attention(images["regions"], captions["words"], self.attention(d)) for d in chosen}

    def combine(self, parts: Mapping[str, Tensor], **settings: float) -> Tensor:
        """The only part, or weight · t2i + (1 - weight) · i2t: at 1/2 the published ensemble up to a factor."""
        assert settings.keys() <= set(self.inference_parameters), f"unknown inference parameters {sorted(settings)}"
        if len(parts) == 1:
            return next(iter(parts.values()))
        weight = {"weight": self.config.weight, **settings}["weight"]
        return weight * parts["t2i"] + (1 - weight) * parts["i2t"]
