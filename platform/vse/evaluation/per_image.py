"""Results per image, from which any recall and its uncertainty can be computed again.

A recall is a sum over queries divided by their number; both are kept for each image (a caption counts for its image),
so that images can be resampled with their captions.
"""

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from vse.adversaries.attacks import ATTACKS
from vse.errors import InputError
from vse.evaluation.attacks import Attacked
from vse.evaluation.metrics import RECALLS, Ranks, Retrieval, by_image
from vse.evaluation.tasks.attacks import AttacksTask
from vse.evaluation.tasks.contrast import ContrastTask
from vse.evaluation.tasks.retrieval import RetrievalTask

WITH_SUMS = (RetrievalTask, AttacksTask, ContrastTask)  # whose metrics are sums of others
PerImage = dict[str, np.ndarray]
"""Metric name without split -> (images, 2): expected hits and number of queries of each image."""


def per_image(
    retrieval: Retrieval, attacks: Mapping[str, Attacked], caption_to_image: np.ndarray, num_images: int
) -> PerImage:
    """Every recall and pair accuracy of one evaluation, per image.

    Args:
        retrieval: Results of both directions.
        attacks: Results of attacks by name; metrics are called `attack_<name>/...`.
        caption_to_image: The position of each caption's image.
        num_images: Images of the split, also without captions.
    """
    table = recalls("i2t", retrieval.i2t, retrieval.i2t.queries.cpu().numpy(), num_images)
    table |= recalls("t2i", retrieval.t2i, np.asarray(caption_to_image), num_images)
    for name, attacked in attacks.items():
        table |= recalls(f"attack_{name}", attacked.i2t, attacked.i2t.queries.cpu().numpy(), num_images)
        table[f"attack_{name}/pair_accuracy"] = attacked.pairs(num_images)
    return table


def recalls(name: str, ranks: Ranks, image: np.ndarray, num_images: int) -> PerImage:
    """R@1, R@5 and R@10 of one task, per image.

    Args:
        name: Begins the names of the metrics.
        ranks: Ranks of the queries.
        image: The position of each query's image.
        num_images: Images of the split, also without queries.
    """
    return {f"{name}/r{k}": by_image(ranks.hits(k).cpu().numpy(), image, num_images) for k in RECALLS}


def own_pools(ranks: Mapping[str, Ranks], num_images: int) -> PerImage:
    """Recalls of the image among all true captions and its own adversaries of each class, per image."""
    table: PerImage = {}
    for name, each in ranks.items():
        table |= recalls(f"own_pool_{name}", each, each.queries.cpu().numpy(), num_images)
    return table


def terms_of(metric: str) -> tuple[str, ...]:
    """The metrics whose sum a metric is, or itself; `attacks/rsum3` is the sum over all attacks."""
    over_attacks = {f"attacks/{name}": name for name in ("r1", "r5", "r10", "rsum3", "pair_accuracy")}
    if name := over_attacks.get(metric):
        return tuple(term for attack in ATTACKS for term in terms_of(f"attack_{attack}/{name}"))
    return _sums(tuple(ATTACKS)).get(metric, (metric,))


@cache
def _sums(attacks: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """The terms of metrics that are sums, by metric; an added attack adds some."""
    return {each.name: each.terms for task in WITH_SUMS for each in task().metrics if each.terms}


def counts_of(table: PerImage, metric: str, terms: Sequence[str] = ()) -> tuple[np.ndarray, np.ndarray]:
    """(hits, queries) of a metric's terms, both (images, terms).

    Args:
        table: Results per image.
        metric: Name without split, such as `rsum`.
        terms: The metrics whose sum it is; empty for `terms_of` of it.

    Raises:
        InputError: The table lacks a term; the message names what there is.
    """
    names = terms or terms_of(metric)
    missing = [name for name in names if name not in table]
    if missing:
        raise InputError(f"{metric}: no per-image results for {missing[0]}; there are {', '.join(sorted(table))}")
    both = np.stack([table[name] for name in names], axis=1)
    return both[..., 0], both[..., 1]
