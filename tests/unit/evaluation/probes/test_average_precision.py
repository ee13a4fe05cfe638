"""Average precision against a loop over the ranking, and over every order of tied candidates."""

from itertools import pairwise, permutations

import numpy as np
import pytest
import torch

from vse.evaluation.average_precision import average_precision


def by_loop(scores: np.ndarray, relevant: np.ndarray) -> float:
    """VSE-C, eq. 5, for scores without ties."""
    order, hits, total = np.argsort(-scores), 0, 0.0
    for rank, place in enumerate(order, 1):
        if relevant[place]:
            hits += 1
            total += hits / rank
    return total / relevant.sum()


def test_by_a_loop() -> None:
    rng = np.random.default_rng(0)
    for candidates in (1, 2, 7, 40):
        scores, relevant = rng.normal(size=(9, candidates)), rng.random((9, candidates)) < 0.4
        relevant[:, 0] |= ~relevant.any(1)
        given = average_precision(torch.from_numpy(scores), torch.from_numpy(relevant)).numpy()
        assert given == pytest.approx([by_loop(s, r) for s, r in zip(scores, relevant, strict=True)])


def test_ties_have_the_expectation_over_all_orders() -> None:
    scores, relevant = np.array([2.0, 1.0, 1.0, 1.0, 0.5, 0.5]), np.array([0, 1, 0, 1, 1, 0], dtype=bool)
    orders = [p for p in permutations(range(6)) if all(scores[a] >= scores[b] for a, b in pairwise(p))]
    wanted = np.mean([by_loop(-np.arange(6.0), relevant[list(order)]) for order in orders])
    given = average_precision(torch.from_numpy(scores)[None], torch.from_numpy(relevant)[None]).item()
    assert given == pytest.approx(wanted)


def test_equal_scores_are_chance_in_closed_form() -> None:
    """H(n) / n + (r - 1) / (n - 1) (1 - H(n) / n) for r relevant ones of n."""
    for n, r in ((5, 1), (9, 4), (6, 6)):
        relevant = torch.arange(n)[None] < r
        harmonic = sum(1 / k for k in range(1, n + 1)) / n
        assert average_precision(torch.zeros(1, n), relevant).item() == pytest.approx(
            harmonic + (r - 1) / (n - 1) * (1 - harmonic)
        )


def test_candidates_at_minus_infinity_take_no_part() -> None:
    rng = np.random.default_rng(1)
    scores, relevant, there = rng.normal(size=(5, 12)), rng.random((5, 12)) < 0.5, rng.random((5, 12)) < 0.7
    there[:, 0] = relevant[:, 0] = True
    relevant &= there
    masked = np.where(there, scores, -np.inf)
    given = average_precision(torch.from_numpy(masked), torch.from_numpy(relevant)).numpy()
    rows = zip(scores, relevant, there, strict=True)
    assert given == pytest.approx([by_loop(s[t], r[t]) for s, r, t in rows])


def test_a_query_without_a_relevant_candidate_is_nan() -> None:
    assert average_precision(torch.zeros(1, 3), torch.zeros(1, 3, dtype=torch.bool)).isnan().all()
