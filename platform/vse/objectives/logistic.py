"""Logistic loss over the pairs of a batch (Similarity Network, our reading)."""

from dataclasses import dataclass
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor

from vse.config import knob
from vse.objectives.hinge import ABOUT_MASK, MASKS, excluded_pairs
from vse.objectives.objective import Encoded, Objective, batch_scores
from vse.registry import ComponentConfig, register


@register("objective", "logistic")
class Logistic(Objective):
    """One loss, `sent`: Σ log(1 + e^−s) over positive pairs and Σ log(1 + eˢ) over negative ones; s has a learned bias.

    The negative pairs are weighted so that both sums count alike.

    Args:
        config: keys below `objective.`.
    """

    semi_supervised = True
    scalars = MappingProxyType({"logistic_bias": 0.0})

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """All ours."""

        mask: str = knob("same", ABOUT_MASK, choices=MASKS)

    def __call__(self, encoded: Encoded, gathered: Encoded, epoch: int) -> dict[str, Tensor]:
        scores = batch_scores(gathered) + gathered["logistic_bias"]
        own = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
        negative = (~(excluded_pairs(gathered, self.config.mask) | own)).to(scores.dtype)
        paired = gathered["paired"] if "paired" in gathered else torch.ones_like(own[0] if len(own) else own.any(1))
        positive = (F.softplus(-scores.diagonal()) * paired.to(scores.dtype)).sum()
        share = paired.sum() / negative.sum().clamp_min(1)
        return {"sent": positive + share * (F.softplus(scores) * negative).sum()}
