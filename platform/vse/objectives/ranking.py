"""The ranking loss of VSE and VSE++, and the base of objectives that have it among their losses."""

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from vse.config import knob
from vse.objectives.hinge import ABOUT_MASK, MASKS, bidirectional_hinge, excluded_pairs
from vse.objectives.objective import Encoded, Objective, batch_scores
from vse.registry import ComponentConfig, register


@dataclass(frozen=True, kw_only=True, slots=True)
class HingeConfig(ComponentConfig):
    """The keys of the hinge. VSE++ takes the hardest negative of a positive, VSE the sum over all negatives."""

    margin: float = knob(0.2, "margin of the hinge", low=0, only="match=hinge")
    hinge: str = knob("hardest", "negatives of a positive", choices=("hardest", "sum"), only="match=hinge")
    warmup: int = knob(
        0, "first epochs with the sum over negatives, against collapse", low=0, only="match=hinge hinge=hardest"
    )
    mask: str = knob("same", ABOUT_MASK, choices=MASKS, only="match!=mse")


class HingeObjective(Objective):
    """An objective with the loss `sent`, the bidirectional hinge over the global batch.

    Args:
        config: with the keys of `HingeConfig`.
    """

    def hardest(self, epoch: int) -> bool:
        """Whether an epoch (0-based) uses the hardest negatives only."""
        return self.config.hinge == "hardest" and epoch >= self.config.warmup

    def excluded(self, gathered: Encoded) -> Bool[Tensor, "items items"]:
        """Pairs that are no negatives, by the configured mask."""
        return excluded_pairs(gathered, self.config.mask)

    def ranked(
        self, scores: Float[Tensor, "items items"], excluded: Bool[Tensor, "items items"], epoch: int
    ) -> Float[Tensor, ""]:
        """The hinge (eq. 1 of UniVSE and VSE-C), as configured for the epoch.

        Args:
            scores: of images and captions.
            excluded: pairs that are no negatives.
            epoch: 0-based.
        """
        return bidirectional_hinge(scores, excluded, self.config.margin, self.hardest(epoch))

    def collapse_level(self, epoch: int) -> tuple[str, float] | None:
        return ("sent", 2 * self.config.margin) if self.hardest(epoch) else None


@register("objective", "ranking")
class Ranking(HingeObjective):
    """One loss, `sent`: the bidirectional hinge over images and captions of the global batch.

    Args:
        config: keys below `objective.`.
    """

    semi_supervised = True
    Config = HingeConfig

    def __call__(self, encoded: Encoded, gathered: Encoded, epoch: int) -> dict[str, Tensor]:
        return {"sent": self.ranked(batch_scores(gathered), self.excluded(gathered), epoch)}
