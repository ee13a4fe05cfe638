"""The losses of CSE (thesis, section 1.4.3): a triplet loss over all negatives for every layer."""

from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from vse.config import knob
from vse.objectives.hinge import ABOUT_MASK, MASKS, excluded_pairs
from vse.objectives.matching import MATCH, MATCHES, first_scalars, matched
from vse.objectives.objective import Encoded, Objective, products
from vse.registry import ComponentConfig, register


@register("objective", "cse")
class CSELoss(Objective):
    """Losses `sent`, and `middle`, the mean of the losses between images and the codes of each lower layer.

    Args:
        config: keys below `objective.`.
    """

    gathers = frozenset({"images", "captions", "middle"})
    matching = frozenset({"sent", "middle"})
    sole = MappingProxyType({"cse": {}})
    families = frozenset(sole)
    semi_supervised = True

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """Thesis: all negatives, no mining. The rest is ours."""

        margin: float = knob(0.2, "margin of the hinges", low=0, only="match=hinge")
        hinge: str = knob("sum", "negatives of a positive", choices=("hardest", "sum"), only="match=hinge")
        middle: float = knob(0.5, "weight of the lower layers", low=0, only="model.layers>1")
        match: str = knob("hinge", MATCH, choices=MATCHES)
        mask: str = knob("same", ABOUT_MASK, choices=MASKS)

    def __init__(self, config: "CSELoss.Config") -> None:
        super().__init__(config)
        self.scalars = first_scalars(config.match)

    def __call__(self, encoded: Encoded, gathered: Encoded, epoch: int) -> dict[str, Tensor]:
        excluded = excluded_pairs(gathered, self.config.mask)
        losses = {"sent": self._matched(gathered["captions"], excluded, gathered)}
        if lower := gathered["middle"].unbind(1):
            losses["middle"] = torch.stack([self._matched(codes, excluded, gathered) for codes in lower]).mean()
        return losses

    def _matched(self, codes: Tensor, excluded: Tensor, gathered: Encoded) -> Tensor:
        config, scores = self.config, products(gathered["images"], codes)
        hardest, paired = config.hinge == "hardest", gathered.get("paired")
        return matched(config.match, scores, excluded, gathered, config.margin, hardest, paired)

    def weights(self, epoch: int) -> dict[str, float]:
        return {"sent": 1.0, "middle": self.config.middle}

    def collapse_level(self, epoch: int) -> tuple[str, float] | None:
        collapses = self.config.hinge == "hardest" and self.config.match == "hinge"
        return ("sent", 2 * self.config.margin) if collapses else None
