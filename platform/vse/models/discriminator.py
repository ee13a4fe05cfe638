"""The network that tells codes from samples of the prior (jWAE, section 4.2), one for both modalities.

With it come the keys that its families share and the phases in which they train.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from vse.config import knob
from vse.models import noise
from vse.models.encoders import unit
from vse.models.family import Phase, trainable

SLOPE = 0.01  # of the leaky ReLU; the paper gives none, the released code this one
PRIOR = 910  # stream of the prior's samples
CODES, DISCRIMINATOR = "codes", "discriminator"  # phases
BETAS = (0.5, 0.999)  # of the discriminator's Adam, as in the released code


# no slots: a configuration that has some already takes these keys too, and Python mixes no two classes with slots
@dataclass(frozen=True, kw_only=True)
class DiscriminatorConfig:
    """Keys of a family that has a discriminator. Published: three layers, its rate half the encoders'."""

    discriminator_dim: int = knob(512, "hidden layers of the discriminator (ours)", low=1)
    discriminator_layers: int = knob(3, "released code: 2", low=2)
    discriminator_rate: float = knob(0.5, "its learning rate over the encoders' (5e-5 to 1e-4)", above=0)
    discriminator_every: int = knob(1, "steps between its updates; released code: 3 (ours)", low=1)
    discriminator_codes: str = knob("raw", "codes it sees; released code: unit vectors", choices=("raw", "unit"))


class Discriminator(nn.Module):
    """Fully connected layers with leaky ReLU between them (three in the paper: after the first two); one logit a code.

    A high logit says "from the prior". `normalize` shows it unit vectors, as the released code does: the norm alone
    then gives the prior away, and no encoder can look like a Gaussian.
    """

    def __init__(self, dim: int, hidden_dim: int, layers: int = 3, normalize: bool = False) -> None:
        super().__init__()
        assert layers >= 2, layers
        self.dim, self.normalize = dim, normalize
        widths = [dim, *[hidden_dim] * (layers - 1), 1]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))

    def forward(self, codes: Float[Tensor, "*batch dim"], fixed: bool = False) -> Float[Tensor, "*batch"]:
        """Logits. `fixed`: the gradient goes to the codes alone, as it does for the encoders that fool it."""
        x = unit(codes) if self.normalize else codes
        return self.logits(x, fixed)

    def judge_prior(self, draw: Int[Tensor, " batch"]) -> Float[Tensor, "batch two"]:
        """Logits of two samples of N(0, I) for each key: as many as both encoders make together (section 4.2)."""
        samples = noise.normal(draw, 2 * self.dim, PRIOR).to(next(self.parameters()).dtype)
        return self.logits(samples.view(len(draw), 2, self.dim))

    def logits(self, x: Float[Tensor, "*batch dim"], fixed: bool = False) -> Float[Tensor, "*batch"]:
        """Logits of vectors as they are."""
        for k, layer in enumerate(self.layers):
            assert isinstance(layer, nn.Linear)
            weight, bias = (layer.weight.detach(), layer.bias.detach()) if fixed else (layer.weight, layer.bias)
            x = F.linear(F.leaky_relu(x, SLOPE) if k else x, weight, bias)
        return x.squeeze(-1)


def discriminator_of(dim: int, config: DiscriminatorConfig) -> Discriminator:
    """The discriminator of codes of so many dimensions."""
    width, layers = config.discriminator_dim, config.discriminator_layers
    return Discriminator(dim, width, layers, normalize=config.discriminator_codes == "unit")


def adversarial_phases(family: nn.Module, judge: Discriminator, config: DiscriminatorConfig) -> tuple[Phase, Phase]:
    """Encoders and decoders first, then the discriminator on the codes they now make."""
    judging = trainable(judge)
    own = {id(p) for p in judging}
    others = tuple(p for p in trainable(family) if id(p) not in own)
    rate, every = config.discriminator_rate, config.discriminator_every
    return Phase(CODES, None, others), Phase(DISCRIMINATOR, None, judging, rate, BETAS, every)


def sampled(
    mean: Float[Tensor, "batch dim"], log_variance: Float[Tensor, "batch dim"], draw: Int[Tensor, " batch"], stream: int
) -> Float[Tensor, "batch dim"]:
    """mean + exp(log_variance / 2) · ε with ε ~ N(0, I) keyed by caption (the VAE's reparametrisation)."""
    samples = noise.normal(draw, mean.shape[1], stream).to(mean.dtype)
    return mean + torch.exp(0.5 * log_variance) * samples
