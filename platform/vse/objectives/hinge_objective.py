"""What objectives with the hinge of VSE++ over whole captions share: its settings, the loss `sent`, its collapse."""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from vse.config import knob
from vse.objectives.hinge import ABOUT_MASK, MASKS, bidirectional_hinge, excluded_pairs
from vse.objectives.objective import Encoded, Objective
from vse.registry import ComponentConfig


@dataclass(frozen=True, kw_only=True, slots=True)
class HingeConfig(ComponentConfig):
    """VSE++: margin 0.2, hardest negatives; VSE: their sum."""

    margin: float = knob(0.2, "margin of the hinge", low=0)
    hinge: str = knob("hardest", "negatives of a positive", choices=("hardest", "sum"))
    warmup: int = knob(0, "first epochs with the sum over negatives, against collapse", low=0)
    mask: str = knob("same", ABOUT_MASK, choices=MASKS)


class HingeObjective(Objective):
    """An objective one of whose losses, `sent`, is the bidirectional hinge over the global batch."""

    def __init__(self, config: HingeConfig) -> None:
        self._hinge = config

    def hardest(self, epoch: int) -> bool:
        """Whether an epoch (0-based) takes the hardest negative alone."""
        return self._hinge.hinge == "hardest" and epoch >= self._hinge.warmup

    def excluded(self, gathered: Encoded) -> Bool[Tensor, "items items"]:
        """Pairs that are no negatives, by the configured mask."""
        return excluded_pairs(gathered, self._hinge.mask)

    def ranked(
        self, scores: Float[Tensor, "items items"], excluded: Bool[Tensor, "items items"], epoch: int
    ) -> Float[Tensor, ""]:
        """Eq. 1 of every such paper on scores of images x captions, as configured for the epoch."""
        return bidirectional_hinge(scores, excluded, self._hinge.margin, self.hardest(epoch))

    def collapse_level(self, epoch: int) -> tuple[str, float] | None:
        return ("sent", 2 * self._hinge.margin) if self.hardest(epoch) else None
