"""Matching of images and captions inside other objectives: by the hinge, InfoNCE or the sigmoid loss.

The papers use the hinge; the others test whether that matters while the other losses stay. An objective learns one
scale (and bias) for all its matching losses, with the initial values of CLIP and SigLIP.
"""

from collections.abc import Mapping

from jaxtyping import Bool, Float
from torch import Tensor

from vse.objectives import infonce, sigmoid
from vse.objectives.hinge import bidirectional_hinge
from vse.objectives.objective import Encoded
from vse.objectives.ranking import HingeConfig, HingeObjective

MATCHES = ("hinge", "infonce", "sigmoid")
MATCH = "loss on images and captions: hinge; or InfoNCE or the sigmoid loss, at a learned scale and without a margin"


_SCALARS = {
    "infonce": infonce.InfoNCE(infonce.InfoNCE.Config()).scalars,
    "sigmoid": sigmoid.Sigmoid(sigmoid.Sigmoid.Config()).scalars,
}


def first_scalars(match: str) -> Mapping[str, float]:
    """Learnable scalars of a matching loss with initial values, as of the objective of that name."""
    return _SCALARS.get(match, {})


def matched(
    match: str,
    scores: Float[Tensor, "items items"],
    excluded: Bool[Tensor, "items items"],
    gathered: Encoded,
    margin: float,
    hardest: bool,
    paired: Bool[Tensor, " items"] | None = None,
) -> Float[Tensor, ""]:
    """Matching loss, summed over both directions.

    Args:
        match: one of `MATCHES`.
        scores: of images and captions.
        excluded: pairs that do not count as negatives, including all pairs with an item that is not `paired`.
        gathered: holds the learnable scalars.
        margin: of the hinge.
        hardest: whether the hinge uses the hardest negatives only.
        paired: items whose image and caption belong together; None for all.
    """
    if match == "infonce":
        return infonce.cross_entropies(scores, excluded, infonce.bounded_exp(gathered[infonce.SCALE]))
    if match == "sigmoid":
        return sigmoid.pairwise_sigmoid(sigmoid.logits_of(scores, gathered), excluded, paired)
    return bidirectional_hinge(scores, excluded, margin, hardest)


class MatchingObjective(HingeObjective):
    """A hinge objective whose matching losses may be InfoNCE or the sigmoid loss instead.

    Args:
        config: with the keys of `HingeConfig`.
        match: one of `MATCHES`, or another name for which the subclass computes the loss itself.
    """

    def __init__(self, config: HingeConfig, match: str) -> None:
        super().__init__(config)
        self._match, self.scalars = match, first_scalars(match)

    def matched(
        self,
        scores: Float[Tensor, "items items"],
        excluded: Bool[Tensor, "items items"],
        gathered: Encoded,
        epoch: int,
        paired: Bool[Tensor, " items"] | None = None,
    ) -> Float[Tensor, ""]:
        """The configured matching loss for an epoch, summed over both directions.

        Args:
            scores: of images and captions.
            excluded: pairs that do not count as negatives, including all pairs with an item that is not `paired`.
            gathered: holds the learnable scalars.
            epoch: decides whether the hinge uses the hardest negatives only, as configured.
            paired: items whose image and caption belong together; None for all.
        """
        return matched(self._match, scores, excluded, gathered, self.config.margin, self.hardest(epoch), paired)

    def collapse_level(self, epoch: int) -> tuple[str, float] | None:
        return super().collapse_level(epoch) if self._match == "hinge" else None
