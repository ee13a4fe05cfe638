"""Average precision against its definition, over orders of ties, and the closed form of a random ranking."""

import itertools
import math

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


def in_runs(scores, relevant, tolerance):
    """Average precision by a loop: a run of ties is as wide as the tolerance below its first score allows."""
    runs, first = [], math.nan
    for score, hit in sorted(zip(scores, relevant, strict=True), reverse=True):
        if not score >= first - tolerance * max(abs(first), 1):
            first = score
            runs.append([])
        runs[-1].append(hit)
    orders = [
        [[k in each for k in range(len(run))] for each in itertools.combinations(range(len(run)), sum(run))]
        for run in runs
    ]
    return np.mean([of_an_order(list(itertools.chain(*order))) for order in itertools.product(*orders)])


@pytest.mark.parametrize("spread", [1, 3, 10])
@pytest.mark.parametrize(("offset", "tolerance"), [(0, 1 / 8), (-64, 1 / 512)])
def test_chains_of_close_scores_are_runs_by_a_loop(spread, offset, tolerance):
    generator = torch.Generator().manual_seed(spread)
    scores = (torch.randint(0, 6 * spread, (40, 9), generator=generator) / 16 + offset).double()
    relevant = torch.rand(40, 9, generator=generator) < 0.4
    relevant[:, 0] = True
    values = average_precision(scores, relevant, tolerance)
    for row, value in enumerate(values.tolist()):
        assert value == pytest.approx(in_runs(scores[row].tolist(), relevant[row].int().tolist(), tolerance))


def test_many_close_scores_in_the_right_order_are_no_tie():
    scores = torch.linspace(1e-2, 0, 25000)[None]  # 4e-7 apart: three tie
    relevant = torch.arange(25000)[None] < 5
    # the last two of five are among three that tie: places 4 and 5, 4 and 6, or 5 and 6
    expected = (3 + (2 + (1 + 5 / 6) + (4 / 5 + 5 / 6)) / 3) / 5
    assert average_precision(scores, relevant).item() == pytest.approx(expected)
    assert average_precision(scores.double(), relevant, tolerance=1e-7).item() == 1
    assert average_precision(scores.T.contiguous().T, relevant).item() == pytest.approx(expected)


def test_infinite_scores_tie_with_each_other_alone():
    scores = torch.tensor([[torch.inf, 2.0, torch.inf, -torch.inf, 1.0, -torch.inf]])
    relevant = torch.tensor([[True, False, False, True, True, False]])
    assert average_precision(scores, relevant).item() == pytest.approx(
        average_precision(torch.tensor([[9.0, 2.0, 9.0, -9.0, 1.0, -9.0]]), relevant).item()
    )


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
