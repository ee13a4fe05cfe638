"""VSE-infinity (Chen et al., 2021): any number of regions and words of a bidirectional GRU, both pooled by GPO.

Not among the papers of this project. The image side adds a two-layer perceptron to a linear layer. The public code
normalises the hidden layer over the batch (absent regions included); we normalise each region by itself, so that a code
does not depend on the batch. Size augmentation replaces words by <unk>, and states of a pretrained encoder by zeros;
the public code for a GRU deletes or replaces words.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from vse.config import knob
from vse.models import noise
from vse.models.encoders import WordTable, linear_xavier, present, unit
from vse.models.family import Batch, Context, Encoded, Family, FeatureScale, Inputs
from vse.models.gru import within
from vse.models.pooling import GPO
from vse.models.word_states import TEXT, TEXTS, word_layers
from vse.registry import ComponentConfig, register
from vse.text.vocabulary import UNKNOWN

REGIONS, WORDS = 910, 911  # streams of size augmentation


@register("family", "vse_infinity")
class VSEInfinity(Family):
    """Codes `images` and `captions` (batch, dim) are unit vectors; the score is their cosine.

    Args:
        config: sizes and settings.
        context: of the data.
        scale: of image features (see `FeatureScale`).
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """Published values are the defaults."""

        dim: int = knob(1024, "dimension of the joint space", low=1)
        text: str = knob("words", TEXT, choices=TEXTS)
        word_dim: int = knob(300, "dimension of learned word vectors", low=1, only="text.word_vectors= text=words")
        hidden_dim: int = knob(512, "hidden units of the regions' perceptron", low=1)
        fixed_words: bool = knob(False, "keep given word vectors fixed", only="text.word_vectors!= text=words")
        augment: float = knob(0.2, "share of regions left out and of words replaced in training", low=0, high=0.9)

    @classmethod
    def requires(cls, config: "VSEInfinity.Config") -> Inputs:
        encoded = config.text != "words"
        return Inputs(image="map", components=False, sentence=encoded, states=encoded)

    def __init__(self, config: "VSEInfinity.Config", context: Context, scale: str = "standardize") -> None:
        super().__init__(config)
        self.augment = config.augment
        channels = context.feature_dims["map"]
        self.scale = FeatureScale(channels, scale)
        self.project = linear_xavier(channels, config.dim)
        self.deep = nn.Sequential(
            linear_xavier(channels, config.hidden_dim),
            nn.LayerNorm(config.hidden_dim),
            nn.ReLU(),
            linear_xavier(config.hidden_dim, config.dim),
        )
        self.words, self.states = word_layers(context, config)
        self.image_pool, self.text_pool = GPO(), GPO()

    def forward(self, batch: Batch, phase: str = "") -> Encoded:
        """Codes of both sides; in training, of augmented regions and words."""
        if not self.training or not self.augment:
            return super().forward(batch, phase)
        features, tokens, lengths = batch["map"], batch["tokens"], batch["lengths"]
        hidden = noise.uniform(batch["draw"], tokens.shape[1], WORDS) < self.augment
        hidden[:, :1] = False  # <start>
        hidden &= within(lengths - 1, tokens.shape[1])  # <end> and padding
        augmented = {**batch, "tokens": torch.where(hidden, UNKNOWN, tokens)}
        if self.inputs.states:
            augmented["states"] = batch["states"] * ~hidden[..., None]
        return {
            "images": self._images(features, self._kept(features, batch["draw"])),
            **self.encode_captions(augmented),
        }

    def word_vectors(self, words: Int[Tensor, " words"]) -> Float[Tensor, "words dim"] | None:
        return self.words(words) if isinstance(self.words, WordTable) else None

    def encode_images(self, batch: Batch) -> Encoded:
        """images (batch, dim) from `map` (batch, regions, channels)."""
        return {"images": self._images(batch["map"], present(batch["map"]))}

    def encode_regions(self, batch: Batch) -> Encoded:
        """Vectors of regions before pooling: regions (batch, regions, dim), and region_mask if some are absent."""
        scaled, mask = self.scale(batch["map"]), present(batch["map"])
        regions = self.project(scaled) + self.deep(scaled)
        return {"regions": regions} if mask is None else {"regions": regions, "region_mask": mask}

    def encode_captions(self, batch: Batch) -> Encoded:
        """captions (batch, dim)."""
        table, tokens = self.words.rows(batch)
        states = self.states(table, tokens, batch["lengths"])
        return {"captions": unit(self.text_pool(states, within(batch["lengths"], tokens.shape[1])))}

    def _kept(
        self, features: Float[Tensor, "batch regions channels"], draw: Int[Tensor, " batch"]
    ) -> Bool[Tensor, "batch regions"]:
        """Regions that augmentation keeps: at least one, if the image has any."""
        kept, there = noise.uniform(draw, features.shape[1], REGIONS) >= self.augment, present(features)
        there = torch.ones_like(kept) if there is None else there
        kept &= there
        first = there & (there.cumsum(1) == 1)
        return kept | (first & ~kept.any(1, keepdim=True))

    def _images(
        self, features: Float[Tensor, "batch regions channels"], mask: Bool[Tensor, "batch regions"] | None
    ) -> Float[Tensor, "batch dim"]:
        scaled = self.scale(features)
        return unit(self.image_pool(self.project(scaled) + self.deep(scaled), mask))
