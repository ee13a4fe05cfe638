"""The family `mean_of_words`."""

from dataclasses import dataclass

from torch import nn

from vse.config import knob
from vse.models.encoders import PooledEncoder, WordTable, unit
from vse.models.family import Batch, Context, Encoded, Family, Inputs
from vse.registry import ComponentConfig, register


@register("family", "mean_of_words")
class MeanOfWords(Family):
    """Mean of word vectors against a linear map of the pooled feature."""

    inputs = Inputs(image="pooled", components=False)

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        dim: int = knob(256, "dimension of the joint space", low=1)
        fixed_words: bool = knob(False, "keep pre-trained word vectors fixed", only="text.word_vectors!=")

    def __init__(self, config: "MeanOfWords.Config", context: Context, scale: str = "standardize") -> None:
        super().__init__(config)
        self.image = PooledEncoder(context.feature_dims["pooled"], config.dim, scale)
        self.words = WordTable(context, config.dim, config.fixed_words)
        self.text = nn.Linear(self.words.dim, config.dim)

    def encode_images(self, batch: Batch) -> Encoded:
        return {"images": self.image(batch["pooled"])}

    def encode_captions(self, batch: Batch) -> Encoded:
        present = (batch["tokens"] != 0)[..., None]
        return {"captions": unit(self.text((self.words(batch["tokens"]) * present).sum(1)))}
