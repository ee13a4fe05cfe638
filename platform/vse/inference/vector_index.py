"""FAISS indexes of vectors by inner product, and how much of an exact search an approximate one finds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float32

from vse.storage.hub import optional_package

CLOSE = 1e-5  # scores that differ by less are equal: both indexes add up in their own order
POINTS = 39  # vectors for each list of an IVF index, fewer of which FAISS calls too few
QUERIES_AT_ONCE = 1024


def faiss_package() -> Any:
    """The module. Raises InputError if it is not installed."""
    return optional_package("faiss", "index", "index")


def flat_index(vectors: Float32[np.ndarray, "vectors dim"]) -> Any:
    """An index that compares a query with every vector."""
    index = faiss_package().IndexFlatIP(vectors.shape[1])
    index.add(np.ascontiguousarray(vectors))
    return index


def number_of_lists(vectors: int) -> int:
    """Lists of an IVF index of so many vectors: the square root of their number, with at least `POINTS` in each."""
    return max(1, min(round(vectors**0.5), vectors // POINTS))


def ivf_index(vectors: Float32[np.ndarray, "vectors dim"], lists: int, probes: int) -> Any:
    """An index that compares a query with the vectors of the nearest lists alone.

    Args:
        vectors: with which its centroids are trained, always in the same way, and which it holds.
        lists: number of centroids, at most one for each vector.
        probes: nearest lists that are searched, unless the reader of the index chooses another number.
    """
    faiss = faiss_package()
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(vectors.shape[1]), vectors.shape[1], lists, faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = 1  # FAISS would print that lists are few, as asked for
    index.nprobe = probes
    data = np.ascontiguousarray(vectors)
    index.train(data)
    index.add(data)
    return index


def recall(
    index: Any, exact: Any, queries: Float32[np.ndarray, "queries dim"], cutoffs: Sequence[int], *, own: bool = False
) -> dict[int, float]:
    """recall@k for several k: the share of the k best vectors of each query that an index finds among its k best.

    A vector with the score of the k-th best counts as one of them, since captions may be equal.

    Args:
        index: that is judged.
        exact: flat index of the same vectors.
        queries: of both.
        cutoffs: the numbers k; if there are fewer vectors, all of them.
        own: queries are the vectors of the index in its order, and none counts as its own answer.
    """
    deepest = min(max(cutoffs) + own, exact.ntotal)
    if deepest <= own:
        return {}  # a single picture has no others to be found
    recalls = dict.fromkeys(cutoffs, 0.0)
    for first in range(0, len(queries), QUERIES_AT_ONCE):
        block = np.ascontiguousarray(queries[first : first + QUERIES_AT_ONCE])
        best, approximate = (_scores(each, block, deepest, first if own else None) for each in (exact, index))
        for k in cutoffs:
            kept = min(k, best.shape[1])
            if kept:
                right = approximate[:, :kept] >= best[:, kept - 1 : kept] - CLOSE
                recalls[k] += float(right.sum()) / (kept * len(queries))
    return recalls


def _scores(index: Any, queries: np.ndarray, number: int, own: int | None) -> np.ndarray:
    """The best scores of each query in descending order, without the vector at its own place if `own` is the first."""
    scores, places = index.search(queries, number)
    scores = np.where(places >= 0, scores, -np.inf)  # FAISS fills up with -1 if the lists hold too few
    if own is None:
        return scores
    itself = places == np.arange(own, own + len(queries))[:, None]
    return -np.sort(-np.where(itself, -np.inf, scores), axis=1)[:, : number - 1]
