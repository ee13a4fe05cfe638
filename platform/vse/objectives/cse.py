"""The losses of CSE (thesis, section 1.4.3): a triplet loss over all negatives for every layer."""

from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from vse.config import knob
from vse.objectives.matching import MATCH, MATCHES, MatchingObjective
from vse.objectives.objective import Encoded, products
from vse.objectives.ranking import HingeConfig
from vse.registry import register


@register("objective", "cse")
class CSELoss(MatchingObjective):
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
    class Config(HingeConfig):
        """Thesis: all negatives, no mining. The rest is ours."""

        hinge: str = knob("sum", "negatives of a positive", choices=("hardest", "sum"), only="match=hinge")
        middle: float = knob(0.5, "weight of the lower layers", low=0, only="model.layers>1")
        match: str = knob("hinge", MATCH, choices=MATCHES)

    def __init__(self, config: "CSELoss.Config") -> None:
        super().__init__(config, config.match)

    def __call__(self, encoded: Encoded, gathered: Encoded, epoch: int) -> dict[str, Tensor]:
        excluded, paired = self.excluded(gathered), gathered.get("paired")

        def loss(codes: Tensor) -> Tensor:
            return self.matched(products(gathered["images"], codes), excluded, gathered, epoch, paired)

        losses = {"sent": loss(gathered["captions"])}
        if lower := gathered["middle"].unbind(1):
            losses["middle"] = torch.stack([loss(codes) for codes in lower]).mean()
        return losses

    def weights(self, epoch: int) -> dict[str, float]:
        return {"sent": 1.0, "middle": self.config.middle}
