"""The ranking loss of VSE, VSE++ and everything that embeds both sides globally."""

from dataclasses import dataclass

from torch import Tensor

from vse.config import knob
from vse.objectives.hinge import MASKS, bidirectional_hinge, excluded_pairs
from vse.objectives.objective import Encoded, Objective, batch_scores
from vse.registry import ComponentConfig, register


@register("objective", "ranking")
class Ranking(Objective):
    """One loss, `sent`: the bidirectional hinge over images and captions of the global batch."""

    gathers = frozenset({"images", "captions", "scores"})
    semi_supervised = True

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """VSE++: margin 0.2, hardest negatives; VSE: their sum."""

        margin: float = knob(0.2, "of the hinge", low=0)
        hinge: str = knob("hardest", "negatives of a positive", choices=("hardest", "sum"))
        warmup: int = knob(0, "first epochs with the sum, against collapse", low=0)
        mask: str = knob("same", "no negatives: pairs of the same image or text, true pairs, or none", choices=MASKS)

    def __init__(self, config: "Ranking.Config") -> None:
        self.config = config

    def __call__(self, encoded: Encoded, everyone: Encoded, epoch: int) -> dict[str, Tensor]:
        scores = batch_scores(everyone)
        excluded = excluded_pairs(everyone, self.config.mask)
        return {"sent": bidirectional_hinge(scores, excluded, self.config.margin, self._hardest(epoch))}

    def weights(self, epoch: int) -> dict[str, float]:
        return {"sent": 1.0}

    def collapse_level(self, epoch: int) -> tuple[str, float] | None:
        return ("sent", 2 * self.config.margin) if self._hardest(epoch) else None

    def _hardest(self, epoch: int) -> bool:
        return self.config.hinge == "hardest" and epoch >= self.config.warmup
