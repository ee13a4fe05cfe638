"""InfoNCE over images and captions of a batch, as CLIP uses it (van den Oord et al., 2018; Radford et al., 2021).

Not among the papers of this project: it tests whether the hinge matters. Every number is ours.
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
HIGHEST = math.log(100.0)  # upper bound of the scale, as in CLIP


def bounded_exp(log_scale: Float[Tensor, ""]) -> Float[Tensor, ""]:
    """exp(min(log_scale, HIGHEST)) with a gradient above the bound too, so that the scale can decrease again."""
    return torch.exp(log_scale + (log_scale.clamp(max=HIGHEST) - log_scale).detach())


def info_nce(
    logits: Float[Tensor, "items items"], excluded: Bool[Tensor, "items items"]
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """InfoNCE in both directions.

    Args:
        logits: l_ij of image i and caption j.
        excluded: pairs that are in no denominator; the diagonal always is.

    Returns:
        −Σ_i log softmax_j l_ij at j = i, and −Σ_j log softmax_i l_ij at i = j.
    """
    off_diagonal = ~torch.eye(len(logits), dtype=torch.bool, device=logits.device)
    kept = logits.masked_fill(excluded & off_diagonal, -torch.inf)
    own = logits.diagonal()
    return (kept.logsumexp(1) - own).sum(), (kept.logsumexp(0) - own).sum()


def cross_entropies(
    scores: Float[Tensor, "items items"], excluded: Bool[Tensor, "items items"], scale: Float[Tensor, ""] | float
) -> Float[Tensor, ""]:
    """Half the sum of both directions of `info_nce`.

    Args:
        scores: of images and captions.
        excluded: pairs that are no negatives.
        scale: factor of the scores.
    """
    over_captions, over_images = info_nce(scores * scale, excluded)
    return (over_captions + over_images) / 2


@register("objective", "infonce")
class InfoNCE(Objective):
    """One loss, `sent`: half the sum of both directions' cross entropies at a learned (or fixed) temperature.

    The family's scores must have one scale, such as cosines.

    Args:
        config: keys below `objective.`.
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """The initial temperature is CLIP's."""

        temperature: float = knob(0.07, "divisor of the scores: initial value, or fixed", above=0)
        learn: bool = knob(True, "learn the temperature, bounded below by 1 / 100")
        mask: str = knob("same", ABOUT_MASK, choices=MASKS)

    def __init__(self, config: "InfoNCE.Config") -> None:
        super().__init__(config)
        self.scalars: Mapping[str, float] = {SCALE: -math.log(config.temperature)} if config.learn else {}

    def __call__(self, encoded: Encoded, gathered: Encoded, epoch: int) -> dict[str, Tensor]:
        scores = batch_scores(gathered)
        scale = bounded_exp(gathered[SCALE]) if self.config.learn else 1 / self.config.temperature
        return {"sent": cross_entropies(scores, excluded_pairs(gathered, self.config.mask), scale)}
