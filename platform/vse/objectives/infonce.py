"""InfoNCE over images and captions of a batch, as CLIP uses it (van den Oord et al., 2018; Radford et al., 2021).

Beyond the papers of this project: to test whether the hinge matters. Every number is ours.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vse.config import knob
from vse.objectives.hinge import ABOUT_MASK, MASKS, excluded_pairs
from vse.objectives.objective import Encoded, Objective, batch_scores
from vse.registry import ComponentConfig, register

SCALE = "log_scale"
HIGHEST = math.log(100.0)  # CLIP's bound of the scale


def bounded_exp(log_scale: Float[Tensor, ""], highest: float = HIGHEST) -> Float[Tensor, ""]:
    """exp(min(log_scale, highest)), whose gradient does not stop at the bound, so that a scale can come back."""
    return torch.exp(log_scale + (log_scale.clamp(max=highest) - log_scale).detach())


def info_nce(
    logits: Float[Tensor, "items items"], excluded: Bool[Tensor, "items items"]
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """(−Σ_i log softmax_j l_ij at j = i, −Σ_j log softmax_i l_ij at i = j), rows images, columns captions.

    `excluded` pairs are in no denominator; the diagonal always is.
    """
    off_diagonal = ~torch.eye(len(logits), dtype=torch.bool, device=logits.device)
    kept = logits.masked_fill(excluded & off_diagonal, -torch.inf)
    own = logits.diagonal()
    return (kept.logsumexp(1) - own).sum(), (kept.logsumexp(0) - own).sum()


def cross_entropies(
    scores: Float[Tensor, "items items"], excluded: Bool[Tensor, "items items"], scale: Float[Tensor, ""] | float
) -> Float[Tensor, ""]:
    """Half of `info_nce`'s sum over both directions, of scores times `scale`."""
    over_captions, over_images = info_nce(scores * scale, excluded)
    return (over_captions + over_images) / 2


@register("objective", "infonce")
class InfoNCE(Objective):
    """One loss, `sent`: half the sum of both directions' cross entropies at a learned (or fixed) temperature.

    The family must give scores of one scale, such as cosines.
    """

    gathers = frozenset({"images", "captions", "scores"})

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """First temperature as CLIP's."""

        temperature: float = knob(0.07, "divisor of the scores: initial value, or fixed", above=0)
        learn: bool = knob(True, "learn the temperature, bounded below by 1 / 100")
        mask: str = knob("same", ABOUT_MASK, choices=MASKS)

    def __init__(self, config: "InfoNCE.Config") -> None:
        self.config = config
        self.scalars: Mapping[str, float] = {SCALE: -math.log(config.temperature)} if config.learn else {}

    def __call__(self, encoded: Encoded, gathered: Encoded, epoch: int) -> dict[str, Tensor]:
        scores = batch_scores(gathered)
        scale = bounded_exp(gathered[SCALE]) if self.config.learn else 1 / self.config.temperature
        return {"sent": cross_entropies(scores, excluded_pairs(gathered, self.config.mask), scale)}

    def weights(self, epoch: int) -> dict[str, float]:
        return {"sent": 1.0}
