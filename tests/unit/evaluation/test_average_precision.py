"""Average precision against its definition, over orders of ties, and the closed form of a random ranking."""

import itertools

import numpy as np
import pytest
import torch

from vse.errors import Diverged
from vse.evaluation.average_precision import average_precision, random_average_precision


def of_an_order(relevant):
    """Average precision of one ranking by its definition."""
    hits, value = 0, 0.0
    for place, hit in enumerate(relevant, 1):
        hits += hit
        value += hit * hits / place
    return value / sum(relevant)


def test_without_ties_it_is_the_definition():
    generator = torch.Generator().manual_seed(5)
    scores, relevant = torch.randn(30, 11, generator=generator), torch.rand(30, 11, generator=generator) < 0.3
    relevant[0] = False
    values = average_precision(scores, relevant)
    assert values[0].isnan()
    for row in range(1, 30):
        if relevant[row].any():
            order = scores[row].argsort(descending=True)
            assert values[row].item() == pytest.approx(of_an_order(relevant[row, order].int().tolist()))


def test_ties_are_averaged_over_their_orders():
    scores = torch.tensor([[3.0, 2.0, 2.0, 2.0, 1.0, 1.0]])
    relevant = torch.tensor([[False, True, False, True, False, True]])
    orders = [
        [0, *first, *last] for first in itertools.permutations((1, 0, 1)) for last in itertools.permutations((0, 1))
    ]
    expected = sum(map(of_an_order, orders)) / len(orders)
    assert average_precision(scores, relevant).item() == pytest.approx(expected)
    assert average_precision(scores / 1000 + 5, relevant, tolerance=1e-9).item() == pytest.approx(expected)


@pytest.mark.parametrize(("relevant", "candidates"), [(1, 1), (1, 5), (2, 6), (3, 7), (6, 7), (4, 4)])
def test_a_random_ranking_by_enumeration(relevant, candidates):
    places = list(itertools.combinations(range(candidates), relevant))
    expected = sum(of_an_order([place in each for place in range(candidates)]) for each in places) / len(places)
    assert random_average_precision(np.array([relevant]), candidates)[0] == pytest.approx(expected)


def test_a_random_ranking_is_one_in_which_all_tie():
    sizes = np.array([0, 1, 4, 9])
    relevant = torch.arange(9)[None] < torch.from_numpy(sizes)[:, None]
    tied = average_precision(torch.zeros(4, 9), relevant).numpy()
    assert random_average_precision(sizes, 9) == pytest.approx(tied, nan_ok=True)


def test_a_nan_is_refused():
    with pytest.raises(Diverged):
        average_precision(torch.tensor([[1.0, torch.nan]]), torch.tensor([[True, False]]))
