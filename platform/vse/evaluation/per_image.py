"""Results per image, from which any recall and its uncertainty can be computed again.

A recall is a sum over queries divided by their number; both are kept for each image (a caption counts for its image),
so that images can be resampled with their captions.
"""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from vse.adversaries.univse.attacks import ATTACKS
from vse.errors import InputError
from vse.evaluation.attacks import Attacked
from vse.evaluation.metrics import RECALLS, Ranks, Retrieval

PerImage = dict[str, np.ndarray]
"""Metric name without split -> (images, 2): expected hits and number of queries of each image."""


def per_image(
    retrieval: Retrieval, attacks: Mapping[str, Attacked], caption_to_image: np.ndarray, num_images: int
) -> PerImage:
    """Every recall and pair accuracy of one evaluation, per image."""
    table = recalls("i2t", retrieval.i2t, retrieval.i2t.queries.cpu().numpy(), num_images)
    table |= recalls("t2i", retrieval.t2i, np.asarray(caption_to_image), num_images)
    for name, attacked in attacks.items():
        table |= recalls(f"attack_{name}", attacked.i2t, attacked.i2t.queries.cpu().numpy(), num_images)
        table |= pair_accuracy(name, attacked.wins, attacked.image, num_images)
    return table


def recalls(name: str, ranks: Ranks, image: np.ndarray, num_images: int) -> PerImage:
    """R@1, R@5 and R@10 of one task, per image; `image` has the image of every query."""
    return {f"{name}/r{k}": _summed(ranks.hits(k).cpu().numpy(), image, num_images) for k in RECALLS}


def pair_accuracy(
    name: str, wins: Float[Tensor, " adversaries"], image: Int[Tensor, " adversaries"], num_images: int
) -> PerImage:
    """Share of an attack's adversaries that lose against the caption that they were made from, per image."""
    return {f"attack_{name}/pair_accuracy": _summed(wins.cpu().numpy(), image.cpu().numpy(), num_images)}


def own_pools(ranks: Mapping[str, Ranks], num_images: int) -> PerImage:
    """Recalls of the image among all true captions and its own adversaries of each class, per image."""
    table: PerImage = {}
    for name, each in ranks.items():
        table |= recalls(f"own_pool_{name}", each, each.queries.cpu().numpy(), num_images)
    return table


def _summed(values: np.ndarray, image: np.ndarray, num_images: int) -> np.ndarray:
    hits = np.bincount(image, weights=values, minlength=num_images)
    return np.stack((hits, np.bincount(image, minlength=num_images)), axis=1).astype(np.float64)


def terms_of(metric: str) -> tuple[str, ...]:
    """The recalls whose sum a metric is: `rsum` and `.../rsum3` have several, `attacks/rsum3` is over all attacks."""
    if metric == "rsum":
        return tuple(f"{way}/r{k}" for way in ("i2t", "t2i") for k in RECALLS)
    if metric.startswith("attacks/"):
        rest = metric.removeprefix("attacks/")
        return tuple(term for name in ATTACKS for term in terms_of(f"attack_{name}/{rest}"))
    if metric.endswith("/rsum3"):
        return tuple(f"{metric.removesuffix('/rsum3')}/r{k}" for k in RECALLS)
    return (metric,)


def counts_of(table: PerImage, metric: str) -> tuple[np.ndarray, np.ndarray]:
    """(hits, queries) of a metric's terms, both (images, terms). Raises InputError naming what there is."""
    names = terms_of(metric)
    missing = [name for name in names if name not in table]
    if missing:
        raise InputError(f"{metric}: no per-image results for {missing[0]}; there are {', '.join(sorted(table))}")
    both = np.stack([table[name] for name in names], axis=1)
    return both[..., 0], both[..., 1]
