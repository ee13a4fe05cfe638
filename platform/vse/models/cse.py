"""CSE (You et al.), as the relational thesis describes it (section 1.4.3): a convolutional highway sentence encoder.

Our reading of a paper that is not among our sources. Projected words go through highway convolutions of width three
(y = g·ReLU(c) + (1 − g)·x, with gate g and content c of the same window). After each layer the largest response over
time, linearly mapped, is a code of the sentence. The last one is used for ranking; in training the others are aligned
with the image too ("an intermediate loss"). Images are a linear map of a frozen feature. Defaults are ours.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from vse.config import knob
from vse.models.encoders import PooledEncoder, WordTable, linear_xavier, unit
from vse.models.family import Batch, Context, Encoded, Family, Inputs
from vse.models.gru import within
from vse.registry import ComponentConfig, register

CARRY = -1.0  # initial bias of the gates, with which layers pass on their input


class HighwayConvolution(nn.Module):
    """A gated convolution over a window of three words; positions without a word are zero.

    Args:
        dim: channels of input and output.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.window = nn.Linear(3 * dim, 2 * dim)
        with torch.no_grad():
            self.window.bias[dim:].add_(CARRY)

    def forward(
        self, x: Float[Tensor, "batch time dim"], mask: Bool[Tensor, "batch time"]
    ) -> Float[Tensor, "batch time dim"]:
        padded = F.pad(x, (0, 0, 1, 1))
        content, gate = self.window(torch.cat([padded[:, :-2], x, padded[:, 2:]], dim=2)).chunk(2, dim=2)
        gate = torch.sigmoid(gate)
        return (gate * content.relu() + (1 - gate) * x) * mask[..., None]


@register("family", "cse")
class CSE(Family):
    """Codes `images`, `captions` (batch, dim) and, in training, `middle` (batch, layers − 1, dim) are unit vectors.

    Args:
        config: sizes and settings.
        context: of the data.
        scale: of image features (see `FeatureScale`).
    """

    inputs = Inputs(image="pooled", components=False)

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """All ours."""

        dim: int = knob(1024, "dimension of the joint space", low=1)
        word_dim: int = knob(300, "dimension of learned word vectors", low=1, only="text.word_vectors=")
        fixed_words: bool = knob(False, "keep given word vectors fixed", only="text.word_vectors!=")
        convolution_dim: int = knob(512, "channels of the convolutions", low=1)
        layers: int = knob(3, "highway convolutions", low=1)
        dropout: float = knob(0.0, "dropout of image features", low=0, high=0.9)

    def __init__(self, config: "CSE.Config", context: Context, scale: str = "standardize") -> None:
        super().__init__(config)
        width = config.convolution_dim
        self.image = PooledEncoder(context.feature_dims["pooled"], config.dim, scale, config.dropout)
        self.words = WordTable(context, config.word_dim, config.fixed_words)
        self.enter = nn.Linear(self.words.dim, width)
        self.layers = nn.ModuleList(HighwayConvolution(width) for _ in range(config.layers))
        self.codes = nn.ModuleList(linear_xavier(width, config.dim) for _ in range(config.layers))

    def forward(self, batch: Batch, phase: str = "") -> Encoded:
        """Codes of both sides and `middle`, the codes of the lower layers."""
        codes = self._layer_codes(batch, len(self.layers))
        return {**self.encode_images(batch), "captions": codes[:, -1], "middle": codes[:, :-1]}

    def word_vectors(self, words: Int[Tensor, " words"]) -> Float[Tensor, "words dim"]:
        return self.words(words)

    def encode_images(self, batch: Batch) -> Encoded:
        """images (batch, dim) from `pooled` (batch, channels)."""
        return {"images": self.image(batch["pooled"], draw=batch.get("draw"))}

    def encode_captions(self, batch: Batch) -> Encoded:
        """captions (batch, dim): the code of the last layer."""
        return {"captions": self._layer_codes(batch, 1)[:, 0]}

    def _layer_codes(self, batch: Batch, last: int) -> Float[Tensor, "batch last dim"]:
        """Codes of the last layers, `last` of them."""
        tokens, lengths = batch["tokens"], batch["lengths"]
        if tokens.shape[1] == 0:  # an empty batch: one position, of which a maximum exists
            tokens = F.pad(tokens, (0, 1))
        mask = within(lengths, tokens.shape[1])
        x = self.enter(self.words(tokens)) * mask[..., None]
        codes = []
        for k, (layer, code) in enumerate(zip(self.layers, self.codes, strict=True)):
            x = layer(x, mask)
            if k >= len(self.layers) - last:
                codes.append(unit(code(x.masked_fill(~mask[..., None], -torch.inf).amax(1))))
        return torch.stack(codes, dim=1)
