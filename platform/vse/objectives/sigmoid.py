"""The sigmoid loss over all pairs of a batch (Zhai et al., 2023, SigLIP).

Not among the papers of this project: it tests whether the hinge matters. Initial values are SigLIP's, others ours.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from vse.config import knob
from vse.objectives.hinge import ABOUT_MASK, MASKS, excluded_pairs
from vse.objectives.objective import Encoded, Objective, batch_scores
from vse.registry import ComponentConfig, register

SCALE, BIAS = "log_scale", "bias"


def logits_of(scores: Float[Tensor, "items items"], gathered: Encoded) -> Float[Tensor, "items items"]:
    """Scores times the learned scale, plus the learned bias."""
    return scores * gathered[SCALE].exp() + gathered[BIAS]


def pairwise_sigmoid(
    logits: Float[Tensor, "items items"],
    excluded: Bool[Tensor, "items items"],
    paired: Bool[Tensor, " items"] | None = None,
) -> Float[Tensor, ""]:
    """Sigmoid loss −Σ_ij log σ(z_ij l_ij), z = 1 on the diagonal and −1 elsewhere.

    Args:
        logits: l_ij of image i and caption j.
        excluded: pairs off the diagonal that do not count.
        paired: items on the diagonal that are pairs; None if all are.
    """
    own = torch.eye(len(logits), dtype=torch.bool, device=logits.device)
    losses = F.softplus(torch.where(own, -logits, logits))
    uncounted = excluded & ~own if paired is None else torch.where(own, ~paired, excluded)
    return losses.masked_fill(uncounted, 0).sum()


@register("objective", "sigmoid")
class Sigmoid(Objective):
    """One loss, `sent`: binary classification of every pair, at a learned scale and bias.

    Args:
        config: keys below `objective.`.
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """Initial values are SigLIP's."""

        scale: float = knob(10.0, "initial factor of the scores", above=0)
        bias: float = knob(-10.0, "initial bias of the scores, against the many negatives")
        mask: str = knob("same", ABOUT_MASK, choices=MASKS)

    def __init__(self, config: "Sigmoid.Config") -> None:
        super().__init__(config)
        self.scalars: Mapping[str, float] = {SCALE: math.log(config.scale), BIAS: config.bias}

    def __call__(self, encoded: Encoded, gathered: Encoded, epoch: int) -> dict[str, Tensor]:
        scores = batch_scores(gathered)
        return {"sent": pairwise_sigmoid(logits_of(scores, gathered), excluded_pairs(gathered, self.config.mask))}
