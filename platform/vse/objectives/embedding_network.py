"""The bidirectional ranking loss with neighbourhood constraints of the Embedding Network (Wang et al., TPAMI 2019).

Our reading: distances are Euclidean between unit vectors. Only captions have known neighbours, as the jWAE paper
remarks (section 2): two captions of one image must be closer to each other than to captions of other images.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vse.config import knob
from vse.errors import InputError
from vse.objectives.hinge import ABOUT_MASK, MASKS, excluded_pairs
from vse.objectives.objective import BATCH_NEGATIVES, LISTED, Encoded, Objective, listed_scores, products, single
from vse.registry import ComponentConfig, register


def distances(a: Float[Tensor, "rows dim"], b: Float[Tensor, "columns dim"]) -> Float[Tensor, "rows columns"]:
    """Euclidean distances of unit vectors, without gradient for equal ones."""
    return _distance(products(a, b))


def _distance(product: Tensor) -> Tensor:
    return (2 - 2 * product).clamp_min(1e-12).sqrt()


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

    With a list of negatives for each caption, `sent` has a term over the images of the lists, in one direction.

    Args:
        config: keys below `objective.`.
    """

    gathers = frozenset({"images", "captions", "siblings", "has_sibling", *LISTED})
    matching = frozenset({"sent", "text"})
    semi_supervised = True
    own_negatives = True

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
        mask: str = knob("same", ABOUT_MASK, choices=MASKS, only="batch_negatives=true")
        batch_negatives: bool = BATCH_NEGATIVES

    def check(self, model: object) -> None:
        if not getattr(model, "normalize_images", True):
            raise InputError(
                "model.normalize_images=false: objective=embedding_network compares distances of unit vectors; use "
                "model.normalize_images=true, or objective=ranking"
            )

    def __call__(self, encoded: Encoded, gathered: Encoded, epoch: int) -> dict[str, Tensor]:
        config, captions = self.config, gathered["captions"]
        own = torch.eye(len(captions), dtype=torch.bool, device=captions.device)
        terms = [self._of_lists(gathered)] if "listed" in gathered else []
        terms += [self._of_batch(gathered, own)] if not terms or self.batch_negatives else []
        losses = {"sent": sum(terms[1:], terms[0])}
        if "siblings" in gathered:
            without = excluded_pairs(gathered, "same") | own | ~gathered["has_sibling"][:, None]
            near = _distance((single(captions) * single(gathered["siblings"])).sum(1))
            among = distances(captions, captions)
            losses["text"] = violations(near, among, without, config.margin, config.most)
        return losses

    def _of_batch(self, gathered: Encoded, own: Tensor) -> Tensor:
        config = self.config
        excluded = excluded_pairs(gathered, config.mask) | own
        across = distances(gathered["images"], gathered["captions"])
        positives = across.diagonal()
        over_captions = violations(positives, across, excluded, config.margin, config.most)
        return over_captions + violations(positives, across.T, excluded.T, config.margin, config.most)

    def _of_lists(self, gathered: Encoded) -> Tensor:
        own, others, there = listed_scores(gathered)
        return violations(_distance(own), _distance(others), ~there, self.config.margin, self.config.most)

    def weights(self, epoch: int) -> dict[str, float]:
        return {"sent": 1.0, "text": self.config.neighbours}
