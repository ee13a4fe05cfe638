"""Logistic loss over the pairs of a batch (Similarity Network, our reading)."""

from dataclasses import dataclass
from types import MappingProxyType

import torch
import torch.nn.functional as F
from torch import Tensor

from vse.config import knob
from vse.objectives.hinge import ABOUT_MASK, MASKS, excluded_pairs
from vse.objectives.objective import BATCH_NEGATIVES, Encoded, Objective, batch_scores, listed_scores
from vse.registry import ComponentConfig, register


@register("objective", "logistic")
class Logistic(Objective):
    """One loss, `sent`: Σ log(1 + e^−s) over positive pairs and Σ log(1 + eˢ) over negative ones; s has a learned bias.
    Negative pairs are the other ones of the batch and those of each caption's own list, in two sums.

    The negative pairs of a sum are weighted so that it counts like the positive ones.

    Args:
        config: keys below `objective.`.
    """

    semi_supervised = True
    own_negatives = True
    scalars = MappingProxyType({"logistic_bias": 0.0})

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """All ours."""

        mask: str = knob("same", ABOUT_MASK, choices=MASKS, only="batch_negatives=true")
        batch_negatives: bool = BATCH_NEGATIVES

    def __call__(self, encoded: Encoded, gathered: Encoded, epoch: int) -> dict[str, Tensor]:
        own, sets = None, list[tuple[Tensor, Tensor]]()  # logits, and which of them are of negative pairs
        if "listed" in gathered:
            own, listed, there = listed_scores(gathered)
            own, sets = own + gathered["logistic_bias"], [(listed + gathered["logistic_bias"], there)]
        if own is None or self.batch_negatives:
            scores = batch_scores(gathered) + gathered["logistic_bias"]
            own = scores.diagonal() if own is None else own
            itself = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
            sets.append((scores, ~(excluded_pairs(gathered, self.config.mask) | itself)))
        paired = gathered["paired"] if "paired" in gathered else torch.ones_like(own, dtype=torch.bool)
        loss = (F.softplus(-own) * paired.to(own.dtype)).sum()
        for scores, are in sets:
            negative = are.to(scores.dtype)
            share = paired.sum() / negative.sum().clamp_min(1)
            loss = loss + share * (F.softplus(scores) * negative).sum()
        return {"sent": loss}
