"""FAISS indexes against sorting all products, and recall against a loop over queries."""

import numpy as np
import pytest

from vse.inference.vector_index import flat_index, ivf_index, number_of_lists, recall

pytest.importorskip("faiss")

DRAW = np.random.default_rng(0)
VECTORS = DRAW.normal(size=(120, 8)).astype(np.float32)
QUERIES = DRAW.normal(size=(23, 8)).astype(np.float32)


def naive_recall(found: np.ndarray, queries: np.ndarray, k: int, own: bool) -> float:
    """Share of the k best vectors that are among k found places, a query at a time; places of absent ones are -1."""
    right = 0.0
    for row, query in enumerate(queries):
        scores = VECTORS @ query
        places = [place for place in found[row].tolist() if place >= 0]
        if own:
            scores[row] = -np.inf
            places = [place for place in places if place != row]
        best = set(np.argsort(-scores)[:k].tolist())
        right += len(best & set(places[:k])) / k
    return right / len(queries)


def test_an_exact_index_ranks_by_the_inner_product() -> None:
    scores, places = flat_index(VECTORS).search(QUERIES, 120)
    products = QUERIES @ VECTORS.T
    np.testing.assert_array_equal(places, np.argsort(-products, axis=1))
    np.testing.assert_allclose(scores, -np.sort(-products, axis=1), atol=1e-5)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize(("lists", "probes"), [(12, 1), (12, 3), (40, 1), (1, 1)])
def test_recall_is_that_of_a_loop(lists: int, probes: int, own: bool) -> None:
    index, queries = ivf_index(VECTORS, lists, probes), VECTORS if own else QUERIES
    measured = recall(index, flat_index(VECTORS), queries, (1, 10), own=own)
    places = index.search(queries, 11)[1]
    for k, value in measured.items():
        assert value == pytest.approx(naive_recall(places, queries, k, own), abs=1e-6)
    assert lists == 1 or measured[10] < 1


def test_all_lists_together_find_everything() -> None:
    assert recall(ivf_index(VECTORS, 12, 12), flat_index(VECTORS), QUERIES, (1, 10)) == {1: 1.0, 10: pytest.approx(1.0)}


def test_vectors_of_one_score_stand_for_each_other() -> None:
    """A list holds each copy; which one an index names first is chance."""
    twice = np.concatenate([VECTORS, VECTORS])
    assert recall(ivf_index(twice, 5, 5), flat_index(twice), QUERIES, (1, 3)) == pytest.approx({1: 1.0, 3: 1.0})


def test_fewer_vectors_than_a_cutoff_are_all_of_them() -> None:
    few = VECTORS[:4]
    assert recall(ivf_index(few, 1, 1), flat_index(few), QUERIES, (1, 10)) == pytest.approx({1: 1.0, 10: 1.0})
    assert recall(ivf_index(few, 2, 2), flat_index(few), few, (10,), own=True) == pytest.approx({10: 1.0})


def test_one_vector_alone_has_no_recall() -> None:
    one = VECTORS[:1]
    assert recall(ivf_index(one, 1, 1), flat_index(one), one, (1, 10), own=True) == {}
    assert recall(ivf_index(one, 1, 1), flat_index(one), QUERIES, (1, 10)) == pytest.approx({1: 1.0, 10: 1.0})


def test_the_same_vectors_give_the_same_lists() -> None:
    one, other = (ivf_index(VECTORS, 12, 1).search(QUERIES, 10)[1] for _ in range(2))
    np.testing.assert_array_equal(one, other)


def test_lists_hold_enough_vectors_to_train_them() -> None:
    assert [number_of_lists(n) for n in (1, 77, 78, 1000, 5000, 100_000)] == [1, 1, 2, 25, 71, 316]
