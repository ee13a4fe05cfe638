"""Best candidates against a sort of all of them, worst queries, and what a sentence says that others do not."""

import numpy as np
import pytest
import torch

from vse.errors import Diverged
from vse.evaluation.galleries import best_candidates, unmatched, worst_queries
from vse.evaluation.metrics import Ranks
from vse.text.components import EMPTY, Attribute, Components, Modifier, Object, Relation


@pytest.mark.parametrize(("candidates", "size", "number"), [(23, 5, 4), (7, 7, 20), (40, 3, 1)])
def test_best_candidates_are_those_of_a_full_sort(candidates, size, number):
    rng = np.random.default_rng(candidates)
    scores = torch.tensor(rng.integers(0, 6, (3, candidates)) / 4.0)  # many ties
    order = rng.permutation(candidates)  # adversaries come in the order of their lengths
    blocks = [(rows, scores[:, rows]) for rows in np.array_split(order, -(-candidates // size))]
    values, positions = best_candidates(blocks, number)
    for query in range(3):
        naive = sorted(range(candidates), key=lambda k: (-scores[query, k].item(), k))[:number]
        assert positions[query].tolist() == naive
        assert values[query].tolist() == [scores[query, k].item() for k in naive]


def test_a_nan_is_refused():
    with pytest.raises(Diverged):
        best_candidates([(np.arange(2), torch.tensor([[0.5, float("nan")]]))], 1)


def test_worst_queries_come_first_and_right_ones_not_at_all():
    above = torch.tensor([0, 7, 2, 7])
    none = torch.zeros(4, dtype=torch.int64)
    ranks = Ranks(queries=torch.tensor([3, 5, 8, 9]), above=above, tied_negatives=none, tied_positives=none + 1)
    expected = dict(zip(ranks.queries.tolist(), ranks.expected().tolist(), strict=True))
    assert [query for query, _ in worst_queries(ranks, 10)] == [5, 9, 8]
    assert worst_queries(ranks, 1) == [(5, expected[5])]


def said(objects=(), attributes=(), relations=(), **more):
    return Components(
        tuple(Object(word, 0) for word in objects),
        tuple(Attribute(word, noun, 0, 0) for word, noun in attributes),
        tuple(Relation(one, word, other, 0, (0,), 0) for one, word, other in relations),
        **more,
    )


def test_only_the_smallest_component_that_differs_counts():
    right = said(["dog", "ball"], [("red", "ball")], [("dog", "chase", "ball")])
    other = said(["cat", "ball"], [("black", "cat"), ("red", "ball")], [("cat", "chase", "ball")])
    assert unmatched(other, [right]) == {"object": ("cat",)}
    assert unmatched(said(["ball"], [("blue", "ball")]), [right]) == {"attribute": ("blue ball",)}
    swapped = said(["dog", "ball"], [], [("ball", "chase", "dog")])
    assert unmatched(swapped, [right]) == {"relation": ("ball chase dog",)}


def test_what_any_other_text_says_is_no_difference():
    parts = [said(["dog"], modifiers=(Modifier("old", "dog"),)), said(["ball"], nouns=("tennis",))]
    assert unmatched(said(["dog", "ball", "tennis"], [("old", "dog")]), parts) == {}
    assert unmatched(said(["dog"]), [EMPTY]) == unmatched(said(["dog"]), []) == {"object": ("dog",)}
    assert unmatched(EMPTY, []) == {}
