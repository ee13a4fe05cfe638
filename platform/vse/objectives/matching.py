"""How an objective with losses of its own matches images and captions: the hinge, or a loss without a margin.

Beyond the papers, whose objectives match by the hinge: to test whether that matters while a family's other losses stay.
 One scale (and bias) is learned for all that an objective matches; first values are CLIP's and SigLIP's.
"""

from collections.abc import Mapping

from jaxtyping import Bool, Float
from torch import Tensor

from vse.objectives import infonce, sigmoid
from vse.objectives.hinge import bidirectional_hinge
from vse.objectives.hinge_objective import HingeConfig, HingeObjective
from vse.objectives.objective import Encoded

MATCHES = ("hinge", "infonce", "sigmoid")
MATCH = "loss on images and captions: hinge; or InfoNCE or the sigmoid loss, at a learned scale and without a margin"


_SCALARS = {
    "infonce": infonce.InfoNCE(infonce.InfoNCE.Config()).scalars,
    "sigmoid": sigmoid.Sigmoid(sigmoid.Sigmoid.Config()).scalars,
}


def first_scalars(match: str) -> Mapping[str, float]:
    """Learnable scalars of a way to match, with first values: those of the objective of that name."""
    return _SCALARS.get(match, {})


def matched(
    match: str,
    scores: Float[Tensor, "items items"],
    excluded: Bool[Tensor, "items items"],
    gathered: Encoded,
    margin: float,
    hardest: bool,
    known: Bool[Tensor, " items"] | None = None,
) -> Float[Tensor, ""]:
    """The loss of scores of images x captions, summed over both; `gathered` holds the scalars that it asks for.

    known: items that are pairs, None for all; all pairs of others are among those excluded.
    """
    if match == "infonce":
        return infonce.cross_entropies(scores, excluded, infonce.bounded_exp(gathered[infonce.SCALE]))
    if match == "sigmoid":
        return sigmoid.pairwise_sigmoid(sigmoid.logits_of(scores, gathered), excluded, known)
    return bidirectional_hinge(scores, excluded, margin, hardest)


class MatchingObjective(HingeObjective):
    """An objective whose hinge, `sent` among its losses, may be another way to match."""

    def __init__(self, config: HingeConfig, match: str) -> None:
        super().__init__(config)
        self._match, self.scalars = match, first_scalars(match)

    def matched(
        self,
        scores: Float[Tensor, "items items"],
        excluded: Bool[Tensor, "items items"],
        gathered: Encoded,
        epoch: int,
        known: Bool[Tensor, " items"] | None = None,
    ) -> Float[Tensor, ""]:
        """See `matched`; as configured for the epoch."""
        return matched(self._match, scores, excluded, gathered, self._hinge.margin, self.hardest(epoch), known)

    def collapse_level(self, epoch: int) -> tuple[str, float] | None:
        return super().collapse_level(epoch) if self._match == "hinge" else None
