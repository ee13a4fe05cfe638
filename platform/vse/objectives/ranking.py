"""The ranking loss of VSE, VSE++ and everything that embeds both sides globally."""

from dataclasses import dataclass

from torch import Tensor

from vse.objectives.hinge_objective import HingeConfig, HingeObjective
from vse.objectives.objective import Encoded, batch_scores
from vse.registry import register


@register("objective", "ranking")
class Ranking(HingeObjective):
    """One loss, `sent`: the bidirectional hinge over images and captions of the global batch."""

    gathers = frozenset({"images", "captions", "scores"})
    semi_supervised = True

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(HingeConfig):
        """VSE++: margin 0.2, hardest negatives; VSE: their sum."""

    def __call__(self, encoded: Encoded, gathered: Encoded, epoch: int) -> dict[str, Tensor]:
        return {"sent": self.ranked(batch_scores(gathered), self.excluded(gathered), epoch)}

    def weights(self, epoch: int) -> dict[str, float]:
        return {"sent": 1.0}
