"""VSE-C's loss (Shi et al., COLING 2018, eq. 3): the hinge of VSE++ and one against adversaries of the caption."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vse.adversaries.attacks import contrast_classes
from vse.adversaries.vsec.sampler import BALANCES
from vse.config import knob
from vse.errors import InputError
from vse.objectives.objective import ContrastDraws, Encoded, batch_scores, products, single
from vse.objectives.ranking import HingeConfig, HingeObjective
from vse.registry import register

KINDS = tuple(contrast_classes(of_paper=True))


def intra_pair_hinge(
    scores: Float[Tensor, "batch adversaries"],
    mask: Bool[Tensor, "batch adversaries"],
    positive: Float[Tensor, " batch"],
    margin: float,
) -> Float[Tensor, ""]:
    """Intra-pair hinge Σ_i max_{c''} [m + s(i, c'') − s(i, c_i)]₊ (eq. 3).

    Args:
        scores: of each image with its caption's adversaries c''.
        mask: True for adversaries that exist; a caption without any adds nothing.
        positive: scores of each image with its caption.
        margin: m.
    """
    hinges = (margin + scores - positive[:, None]).clamp_min(0) * mask
    return hinges.amax(1).sum() if hinges.shape[1] else hinges.sum()


@register("objective", "vsec")
class VSECLoss(HingeObjective):
    """Losses `sent`, the hinge of VSE++, and `contrast`, the intra-pair term.

    Args:
        config: keys below `objective.`.
    """

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(HingeConfig):
        """§3.3: all three kinds of adversaries, N = 8 of about 1,000 drawn at each step. Margin: the public code's.

        §3.3 samples from the candidates, which is `balance=candidate`. Captions have hundreds of candidate nouns and
        few numerals and relations, so nearly all draws are nouns. `paradigm` (ours) draws one of the caption's
        paradigms first. Two of the four, shuffle and preposition, are relations, which get half of the draws.
        """

        margin: float = knob(0.2, "margin of both hinges", low=0)
        kinds: tuple[str, ...] = knob(KINDS, "adversaries to train against", choices=tuple(contrast_classes()))
        draws: int = knob(8, "adversaries per caption and step", low=1)
        balance: str = knob(
            "paradigm", "draw a paradigm first, then one of its candidates; or any candidate", choices=BALANCES
        )
        redraw: int = knob(
            0,
            "seed of the sampling of adversaries alone; initial weights and the order of captions stay the same "
            "(Appendix B)",
            low=0,
        )
        contrast_epoch: int = knob(0, "first epoch (0-based) with adversaries; 1 in the public code", low=0)
        pool: str = knob(
            "own", "adversaries of the caption (eq. 3), or of the batch (public code)", choices=("own", "batch")
        )

    def __init__(self, config: "VSECLoss.Config") -> None:
        super().__init__(config)
        if not config.kinds:
            raise InputError(
                f"objective.kinds=: names no kind of adversaries; use some of {','.join(contrast_classes())}"
            )
        pooled = {"contrast", "contrast_mask"} if config.pool == "batch" else set()
        self.gathers = frozenset({"images", "captions", "scores", *pooled})
        self.local = frozenset({"contrast"})
        self.adversaries = ContrastDraws(config.kinds, config.draws, config.balance, config.redraw)

    def __call__(self, encoded: Encoded, gathered: Encoded, epoch: int) -> dict[str, Tensor]:
        losses = {"sent": self.ranked(batch_scores(gathered), self.excluded(gathered), epoch)}
        if epoch >= self.config.contrast_epoch and "contrast" in encoded:
            losses["contrast"] = self._contrast(encoded, gathered)
        return losses

    def _contrast(self, encoded: Encoded, gathered: Encoded) -> Tensor:
        images = single(encoded["images"])
        positive = (images * single(encoded["captions"])).sum(-1)
        if self.config.pool == "own":
            with torch.autocast(images.device.type, enabled=False):
                scores = torch.einsum("bd,bnd->bn", images, single(encoded["contrast"]))
            mask = encoded["contrast_mask"]
        else:
            scores = products(images, gathered["contrast"].flatten(0, 1))
            mask = gathered["contrast_mask"].flatten()[None].expand(len(images), -1)
        return intra_pair_hinge(scores, mask, positive, self.config.margin)

    def weights(self, epoch: int) -> dict[str, float]:
        return {"sent": 1.0, "contrast": 1.0}
