"""VSE++ (Faghri et al., 2018), the baseline of every paper here: a linear image encoder and a GRU over words.

With a map instead of a pooled feature it is a control with the image side of UniVSE (1x1 convolution, max-k pooling).
Captions can also be read by a frozen pretrained encoder: its states of words in place of word vectors, or its vector of
the caption in place of words and GRU.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vse.config import knob
from vse.errors import InputError
from vse.models.cca import fitted_maps
from vse.models.encoders import (
    WORDS,
    PooledEncoder,
    RegionEncoder,
    WordTable,
    distinct,
    present,
    unit,
)
from vse.models.family import Batch, Context, Encoded, Family, Inputs
from vse.models.gru import PrefixGRU
from vse.models.noise import KeyedDropout, word_keys
from vse.models.word_states import EncodedWords
from vse.registry import ComponentConfig, register


@register("family", "vsepp")
class VSEPP(Family):
    """Codes `images` and `captions` (batch, dim) are unit vectors; the score is their cosine.

    Args:
        config: sizes, image features and their pooling.
        context: of the data.
        scale: of image features (see `FeatureScale`).
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """Published values: dim 1024, word_dim 300."""

        dim: int = knob(1024, "dimension of the joint space", low=1)
        text: str = knob(
            "words",
            "what is read of a caption: word vectors and a GRU, states of text.encoder and a GRU, or text.sentence",
            choices=("words", "states", "sentence"),
        )
        word_dim: int = knob(300, "dimension of learned word vectors", low=1, only="text.word_vectors= text=words")
        fixed_words: bool = knob(False, "keep given word vectors fixed", only="text.word_vectors!= text=words")
        image: str = knob("pooled", "which image features", choices=("pooled", "map"))
        pooling: str = knob(
            "maxk", "pooling of a map's regions", choices=("avg", "max", "maxk", "gpo"), only="image=map"
        )
        k: int = knob(10, "largest responses that max-k pooling averages", low=1, only="image=map pooling=maxk")
        normalize_images: bool = knob(
            True,
            "images as unit vectors; false (pooled features only): VSE0, which ranks by their length",
            only="image=pooled",
        )
        dropout: float = knob(0.0, "dropout of image features and word vectors", low=0, high=0.9)
        start: str = knob(
            "random",
            "initial weights: random, or cca: the canonical correlation analysis of the training pairs",
            choices=("random", "cca"),
            only="image=pooled text=sentence",
        )
        ridge: float = knob(1.0, "ridge added to the variances, as a share of their mean", above=0, only="start=cca")
        image_components: int = knob(256, "principal components of the image features; 0: all", low=0, only="start=cca")

    @classmethod
    def requires(cls, config: "VSEPP.Config") -> Inputs:
        """The configured image features, and the inputs read from captions.

        Raises:
            InputError: for a setting of the other image features, which would change nothing.
        """
        if config.image == "pooled":
            if config.pooling != cls.Config().pooling:
                raise InputError(f"model.pooling={config.pooling}: pools a map's regions; add model.image=map")
        elif not config.normalize_images:
            raise InputError("model.normalize_images=false: only with model.image=pooled")
        if config.start == "cca" and (config.image, config.text) != ("pooled", "sentence"):
            raise InputError("model.start=cca: aligns two vectors; add model.image=pooled model.text=sentence")
        encoded = config.text != "words"
        return Inputs(image=config.image, components=False, sentence=encoded, states=config.text == "states")

    def __init__(self, config: "VSEPP.Config", context: Context, scale: str = "standardize") -> None:
        super().__init__(config)
        channels = context.feature_dims[config.image]
        self.image: Any
        if config.image == "pooled":
            self.image = PooledEncoder(channels, config.dim, scale, config.dropout, config.normalize_images)
            self.unit_codes = config.normalize_images
        else:
            self.image = RegionEncoder(channels, config.dim, config.pooling, config.k, scale, config.dropout)
        self.words: WordTable | EncodedWords | None = None
        self.sentence: Any
        if config.text == "sentence":
            self.sentence = PooledEncoder(context.sentence_dim, config.dim, "standardize", config.dropout, images=False)
        elif config.text == "states":
            self.words = EncodedWords(context.sentence_dim, config.dropout, WORDS)
            self.sentence = PrefixGRU(self.words.dim, config.dim)
        else:
            self.words = WordTable(context, config.word_dim, config.fixed_words)
            self.dropout = KeyedDropout(config.dropout, WORDS)
            self.sentence = PrefixGRU(self.words.dim, config.dim)

        if config.start == "cca":
            most = min(channels, context.sentence_dim, config.image_components or channels)
            if config.dim > most:
                raise InputError(f"model.dim={config.dim}: model.start=cca has at most {most} canonical variables here")

    @torch.no_grad()
    def fit(self, batches: Callable[[], Iterator[Batch]], pairs: Callable[[], Iterator[Batch]] | None = None) -> None:
        """Fit the scale of vectors of captions, and with `start=cca` both layers: codes are then those of CCA."""
        super().fit(batches)
        if self.config.start == "random":
            return

        def vectors() -> Iterator[tuple[Tensor, Tensor]]:
            for batch in (pairs or batches)():
                yield self.image.scale(batch["pooled"]), self.sentence.scale(batch["sentence"])

        c = self.config
        maps = fitted_maps(vectors, c.dim, c.ridge, 1.0, c.image_components)
        for encoder, map_, mean in (
            (self.image, maps.image_map, maps.image_mean),
            (self.sentence, maps.caption_map, maps.caption_mean),
        ):
            encoder.project.weight.copy_(map_.T)
            encoder.project.bias.copy_(-mean @ map_)

    def word_vectors(self, words: Int[Tensor, " words"]) -> Float[Tensor, "words dim"] | None:
        return self.words(words) if isinstance(self.words, WordTable) else None

    def encode_images(self, batch: Batch) -> Encoded:
        """images (batch, dim) from `pooled` (batch, channels) or `map` (batch, regions, channels)."""
        features, draw = batch[self.inputs.image], batch.get("draw")
        if self.inputs.image == "pooled":
            return {"images": self.image(features, draw=draw)}
        return {"images": self.image(features, mask=present(features), draw=draw)[1]}

    def encode_regions(self, batch: Batch) -> Encoded:
        """Vectors of regions before pooling, with `image=map`: regions (batch, regions, dim), and region_mask if some
        are absent."""
        if self.inputs.image != "map":
            return super().encode_regions(batch)
        mask = present(batch["map"])
        regions = self.image(batch["map"], mask=mask)[0]
        return {"regions": regions} if mask is None else {"regions": regions, "region_mask": mask}

    def encode_captions(self, batch: Batch) -> Encoded:
        """captions (batch, dim): the state of the GRU at <end>, or a linear map of `sentence`."""
        if self.words is None:
            return {"captions": self.sentence(batch["sentence"], batch.get("draw"))}
        if isinstance(self.words, EncodedWords):
            table, tokens = self.words.rows(batch)
        else:
            words, (tokens,) = distinct(batch["tokens"])
            table = self.dropout(self.words(words), word_keys(words))
        return {"captions": unit(self.sentence(table, tokens, batch["lengths"]))}
