"""Image-to-sentence retrieval with an image's own contrastive captions among the candidates (VSE-C, section 4.1).

Each image ranks all true captions of the split and the adversaries of its own captions only: with five captions per
image, 5,000 + 100 for one class of adversaries and 5,000 + 300 for all three. The rank is that of its best caption.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from vse.evaluation import protocol as protocols
from vse.evaluation.attacks import AnySet, OwnScores, own_scores, restrict
from vse.evaluation.metrics import Ranks, RetrievalCounter, Ties, mean_over_folds, refuse_nan
from vse.evaluation.retrieval import (
    Blocks,
    Encoded,
    ScoresParts,
    count_retrieval,
    num_items,
    slice_items,
)

METRICS = ("r1", "r10", "medr", "meanr")
NONE, ALL = "none", "all"


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnPoolResult:
    """`metrics` are named `{split}/own_pool_noun/r1` ...; `folds` keep ranks by class, `none` without adversaries."""

    metrics: dict[str, float]
    folds: tuple[dict[str, Ranks], ...]


def add_own(
    counter: RetrievalCounter, scores: Float[Tensor, " adversaries"], image: Int[Tensor, " adversaries"]
) -> RetrievalCounter:
    """A counter that has also met adversaries, each by its own image alone; `counter` is left as it was.

    Raises Diverged at a NaN.
    """
    refuse_nan(scores)
    twin = counter.fork()
    limits = counter.limits()[0][image]
    above = (scores > limits[:, 1]).long()
    level = (scores >= limits[:, 0]).long()
    counts = torch.zeros(len(counter.limits()[0]), 2, dtype=torch.int64, device=scores.device)
    counts.index_add_(0, image, torch.stack((above, level), 1))
    twin.add_counts(slice(0, len(counts)), counts)
    return twin


def own_pool_ranks(
    counter: RetrievalCounter, own: Mapping[str, OwnScores], together: Iterable[str] | None = None
) -> dict[str, Ranks]:
    """Ranks of the images without adversaries (`none`), with each class of them, and with those of `together` (`all`).

    counter: of the true captions; together: every class where not given.
    """
    wanted = tuple(own) if together is None else tuple(together)
    ranks, every = {NONE: counter.result().i2t}, counter
    for name, each in own.items():
        ranks[name] = add_own(counter, each.scores, each.image).result().i2t
        if name in wanted:
            every = add_own(every, each.scores, each.image)
    return {**ranks, ALL: every.result().i2t}


def own_pool_metrics(folds: Sequence[Mapping[str, Ranks]]) -> dict[str, float]:
    """`own_pool_noun/r1` ...: R@1, R@10, Med r and Mean r of `own_pool_ranks`, means over folds; nothing of no fold."""
    return {
        f"own_pool_{name}/{metric}": value
        for name in (folds[0] if folds else ())
        for metric, value in mean_over_folds(fold[name].metrics() for fold in folds).items()
        if metric in METRICS
    }


def evaluate_own_pool(
    model: ScoresParts,
    images: Encoded,
    captions: Encoded,
    caption_to_image: np.ndarray,
    attacks: Mapping[str, AnySet],
    protocol: protocols.Protocol = protocols.WHOLE_SPLIT,
    *,
    together: Iterable[str] | None = None,
    settings: Mapping[str, Any] | None = None,
    ties: Ties | None = None,
    blocks: Blocks | None = None,
) -> OwnPoolResult:
    """`own_pool_ranks` of every fold of a split, from codes of the whole split and of its adversaries."""
    folds = []
    for fold in protocol.select(caption_to_image, num_items(images)):
        some, texts = slice_items(images, fold.images), slice_items(captions, fold.captions)
        counter = count_retrieval(
            model, some, texts, fold.caption_to_image, settings=settings, ties=ties, blocks=blocks
        )
        own = {
            name: own_scores(
                model, some, counter.caption_to_image, restrict(each, fold), settings=settings, blocks=blocks
            )
            for name, each in attacks.items()
        }
        folds.append(own_pool_ranks(counter, own, together))
    metrics = {f"{protocol.split}/{name}": value for name, value in own_pool_metrics(folds).items()}
    return OwnPoolResult(metrics=metrics, folds=tuple(folds))
