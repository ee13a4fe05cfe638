"""The losses of CSE (thesis, section 1.4.3): the triplet loss over all negatives, and the same for lower layers."""

from dataclasses import dataclass
from types import MappingProxyType

import torch
from torch import Tensor

from vse.config import knob
from vse.objectives.hinge import MASKS, bidirectional_hinge, excluded_pairs
from vse.objectives.objective import Encoded, Objective, products
from vse.registry import ComponentConfig, register


@register("objective", "cse")
class CSELoss(Objective):
    """Losses: `sent`, and `middle`, the mean of the hinges between images and each lower layer's codes of sentences."""

    gathers = frozenset({"images", "captions", "middle"})
    matching = frozenset({"sent", "middle"})
    sole = MappingProxyType({"cse": {}})
    families = frozenset(sole)
    semi_supervised = True

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """Thesis: all negatives, no mining. The rest is ours."""

        margin: float = knob(0.2, "of the hinges", low=0)
        hinge: str = knob("sum", "negatives of a positive", choices=("hardest", "sum"))
        middle: float = knob(0.5, "weight of the lower layers", low=0)
        mask: str = knob("same", "no negatives: pairs of the same image or text, true pairs, or none", choices=MASKS)

    def __init__(self, config: "CSELoss.Config") -> None:
        self.config = config

    def __call__(self, encoded: Encoded, everyone: Encoded, epoch: int) -> dict[str, Tensor]:
        config, images = self.config, everyone["images"]
        excluded, hardest = excluded_pairs(everyone, config.mask), config.hinge == "hardest"
        losses = {"sent": bidirectional_hinge(products(images, everyone["captions"]), excluded, config.margin, hardest)}
        lower = everyone["middle"].unbind(1)
        if lower:
            each = [bidirectional_hinge(products(images, codes), excluded, config.margin, hardest) for codes in lower]
            losses["middle"] = torch.stack(each).mean()
        return losses

    def weights(self, epoch: int) -> dict[str, float]:
        return {"sent": 1.0, "middle": self.config.middle}

    def collapse_level(self, epoch: int) -> tuple[str, float] | None:
        return ("sent", 2 * self.config.margin) if self.config.hinge == "hardest" else None
