"""Nearest neighbours within a modality, and what neighbours have in common (jWAE, Fig. 2).

Vectors are compared by their cosine, items by the overlap of their elements: nouns, attribute-noun pairs and relations
of scene graphs or captions, or categories of boxes. The overlap of two sets is |A ∩ B| / |A ∪ B|.
"""

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from scipy.sparse import csr_array
from torch import Tensor

from vse.evaluation.component_queries import KINDS
from vse.evaluation.metrics import Ties, refuse_nan
from vse.evaluation.retrieval import spans
from vse.text.components import Components

Elements = Set[tuple[str, ...]]
"""What is known of an item: (noun,), (attribute, noun), (subject, relation, object) or (category,)."""

SCORES_AT_ONCE = 2**20


@dataclass(frozen=True, eq=False)
class Items:
    """Images or captions as queries or candidates.

    Args:
        vectors: (items, dim), unit vectors.
        members: (items, elements), 1 for an element that an item has.
        groups: (items,): a candidate of a query's own group is none of its neighbours.
    """

    vectors: Float[Tensor, "items dim"]
    members: csr_array
    groups: np.ndarray


def elements_of(components: Components) -> Elements:
    """The nouns, attribute-noun pairs and relational triples of a caption."""
    return {words for of in KINDS.values() for words in of(components)}


def membership(*collections: Sequence[Elements]) -> list[csr_array]:
    """Matrices (items, elements) of zeros and ones, over the elements of all collections together."""
    every = sorted({element for collection in collections for each in collection for element in each})
    place = {element: k for k, element in enumerate(every)}
    matrices = []
    for collection in collections:
        columns = [sorted(place[element] for element in each) for each in collection]
        ends = np.concatenate([[0], np.cumsum([len(each) for each in columns], dtype=np.int64)])
        flat = np.array([column for each in columns for column in each], dtype=np.int64)
        matrices.append(csr_array((np.ones(len(flat)), flat, ends), shape=(len(columns), len(every))))
    return matrices


def rows_of(members: csr_array, chosen: slice | Sequence[int] | np.ndarray) -> csr_array:
    """Some rows of a matrix of `membership`."""
    found: Any = members[chosen]  # scipy declares no types
    return found


def set_overlaps(some: csr_array, others: csr_array) -> Float64[np.ndarray, "some others"]:
    """|A ∩ B| / |A ∪ B| of every pair of rows of two matrices of `membership`; 0 for two empty sets."""
    product: Any = some @ others.T
    shared = product.toarray()
    union = np.asarray(some.sum(1))[:, None] + np.asarray(others.sum(1))[None] - shared
    return shared / np.maximum(union, 1)


def neighbour_weights(
    scores: Float[Tensor, "queries candidates"],
    allowed: Bool[Tensor, "queries candidates"],
    number: int,
) -> Float64[Tensor, "queries candidates"]:
    """The probability of every candidate to be one of the nearest, divided by how many these are: rows sum to 1.

    Candidates that tie with the last neighbour come in random order.

    Args:
        scores: Similarity of the candidates with each query.
        allowed: False for a candidate that is none of the query's neighbours, such as the query itself.
        number: Neighbours of a query. A query with fewer allowed candidates has all of them as neighbours; one without
            any has a row of zeros.

    Raises:
        Diverged: A score is NaN.
    """
    refuse_nan(scores)
    scores = scores.double().masked_fill(~allowed, -torch.inf)
    taken = allowed.sum(1).clamp_max(number)
    best = scores.topk(min(number, scores.shape[1]), dim=1).values
    last = best.gather(1, (taken - 1).clamp_min(0)[:, None])
    low, high = Ties().limits(last)
    above = (scores > high) & allowed
    tied = (scores >= low) & ~above & allowed
    left = (taken - above.sum(1)).double()
    weights = above + tied * (left / tied.sum(1).clamp_min(1))[:, None]
    return weights / taken.clamp_min(1)[:, None]


def neighbour_overlaps(
    queries: Items, candidates: Items, number: int
) -> tuple[Float64[np.ndarray, " queries"], Float64[np.ndarray, " queries"]]:
    """(overlap, random) of every query: the mean overlap with its nearest candidates, and with all candidates.

    The second is the expectation for candidates drawn at random, however many of them. Both are NaN for a query without
    a candidate. Memory holds one block of scores, and one of overlaps.

    Args:
        queries: Items whose neighbours are looked for.
        candidates: Items among which they are looked for.
        number: Neighbours of a query.

    Raises:
        Diverged: A vector is NaN.
    """
    return neighbour_means(queries, candidates, number, set_overlaps)


@torch.inference_mode()
def neighbour_means(
    queries: Items, candidates: Items, number: int, compare: Callable[[csr_array, csr_array], np.ndarray]
) -> tuple[Float64[np.ndarray, " queries"], Float64[np.ndarray, " queries"]]:
    """The mean of any comparison over each query's neighbours and over all its candidates, as `neighbour_overlaps`.

    Args:
        queries: Items whose neighbours are looked for.
        candidates: Items among which they are looked for.
        number: Neighbours of a query.
        compare: Compares members (some, elements) with members (others, elements), two matrices of `membership`; it
            returns values of shape (some, others).

    Returns:
        Both means of each query; NaN for a query without a candidate.
    """
    values = [np.zeros((2, 0))]
    for rows, scores, allowed in score_blocks(queries, candidates):
        weights = neighbour_weights(scores, allowed, number).cpu().numpy()
        compared, possible = compare(rows_of(queries.members, rows), candidates.members), allowed.cpu().numpy()
        count = possible.sum(1)
        sums = np.stack(((weights * compared).sum(1), (possible * compared).sum(1) / np.maximum(count, 1)))
        values.append(np.where(count > 0, sums, np.nan))
    nearest, random = np.concatenate(values, axis=1)
    return nearest, random


def score_blocks(
    queries: Items, candidates: Items
) -> Iterator[tuple[slice, Float[Tensor, "block candidates"], Bool[Tensor, "block candidates"]]]:
    """(queries, cosines, which candidates are allowed) of some queries with all candidates, block by block."""
    device = candidates.vectors.device
    groups = torch.as_tensor(candidates.groups, device=device)
    for rows in spans(len(queries.vectors), max(1, SCORES_AT_ONCE // max(1, len(candidates.vectors)))):
        own = torch.as_tensor(queries.groups[rows], device=device)
        yield rows, queries.vectors[rows] @ candidates.vectors.T, own[:, None] != groups[None]
