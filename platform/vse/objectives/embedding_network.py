"""The bidirectional ranking loss with neighbourhood constraints of the Embedding Network (Wang et al., TPAMI 2019).

Our reading: distances are Euclidean between unit vectors. Only captions have known neighbours, as the jWAE paper
remarks (section 2): two captions of one image must be closer to each other than to captions of other images.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vse.config import knob
from vse.objectives.hinge import ABOUT_MASK, MASKS, excluded_pairs
from vse.objectives.objective import Encoded, Objective, products, single
from vse.registry import ComponentConfig, register


def distances(a: Float[Tensor, "rows dim"], b: Float[Tensor, "columns dim"]) -> Float[Tensor, "rows columns"]:
    """Euclidean distances of unit vectors, without gradient for equal ones."""
    return (2 - 2 * products(a, b)).clamp_min(1e-12).sqrt()


def violations(
    positives: Float[Tensor, " rows"],
    negatives: Float[Tensor, "rows columns"],
    excluded: Bool[Tensor, "rows columns"],
    margin: float,
    most: int,
) -> Float[Tensor, ""]:
    """Σ over rows of the largest terms [m + d(positive) − d(negative)]₊.

    Args:
        positives: distances d of the positive pairs.
        negatives: distances d of all pairs.
        excluded: pairs that are no negatives.
        margin: m.
        most: terms that count for each row.
    """
    terms = (margin + positives[:, None] - negatives).clamp_min(0).masked_fill(excluded, 0)
    if terms.shape[1] > most:
        terms = terms.topk(most, dim=1).values
    return terms.sum()


@register("objective", "embedding_network")
class EmbeddingNetworkLoss(Objective):
    """Losses `sent`, between images and captions in both directions, and `text`, between captions.

    Args:
        config: keys below `objective.`.
    """

    gathers = frozenset({"images", "captions", "siblings", "has_sibling"})
    matching = frozenset({"sent", "text"})
    semi_supervised = True

    @dataclass(frozen=True, kw_only=True, slots=True)
    class Config(ComponentConfig):
        """All ours."""

        margin: float = knob(0.1, "margin of every hinge", low=0)
        most: int = knob(10, "hardest violated negatives that count for each positive", low=1)
        neighbours: float = knob(
            0.1,
            "weight of the constraint between captions of one image",
            low=0,
            only="model=embedding_network model.siblings=true",
        )
        mask: str = knob("same", ABOUT_MASK, choices=MASKS)

    def __call__(self, encoded: Encoded, gathered: Encoded, epoch: int) -> dict[str, Tensor]:
        config, captions = self.config, gathered["captions"]
        own = torch.eye(len(captions), dtype=torch.bool, device=captions.device)
        excluded = excluded_pairs(gathered, config.mask) | own
        across = distances(gathered["images"], captions)
        positives = across.diagonal()
        losses = {
            "sent": violations(positives, across, excluded, config.margin, config.most)
            + violations(positives, across.T, excluded.T, config.margin, config.most)
        }
        if "siblings" in gathered:
            without = excluded_pairs(gathered, "same") | own | ~gathered["has_sibling"][:, None]
            near = (2 - 2 * (single(captions) * single(gathered["siblings"])).sum(1)).clamp_min(1e-12).sqrt()
            among = distances(captions, captions)
            losses["text"] = violations(near, among, without, config.margin, config.most)
        return losses

    def weights(self, epoch: int) -> dict[str, float]:
        return {"sent": 1.0, "text": self.config.neighbours}
