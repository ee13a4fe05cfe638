"""Average precision and mAP@R with ties: expectations over random order of the candidates that tie."""

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from vse.evaluation.metrics import Ties, refuse_nan


def map_at_r(
    scores: Float[Tensor, "queries candidates"], relevant: Bool[Tensor, "queries candidates"], tolerance: float = 1e-6
) -> Float[Tensor, " queries"]:
    """Mean average precision at R per query: (1/R) sum over i <= R of precision(i) * relevant(i), for R relevant ones.

    Musgrave et al., "A Metric Learning Reality Check", ECCV 2020, eq. 2; expected over random order of tied candidates.

    Args:
        scores: Scores of the candidates of each query.
        relevant: True for relevant candidates.
        tolerance: Candidates tie with the best one that does not tie with a better one, down to this below its score
            (see `Ties`).

    Returns:
        Values from 0 to 1; NaN for queries without a relevant candidate.
    """
    gain, position = _gains(scores, relevant, tolerance)
    total = relevant.sum(1, keepdim=True)
    return (gain * (position <= total)).sum(1) / torch.where(total > 0, total, torch.nan).squeeze(1)


def average_precision(
    scores: Float[Tensor, "queries candidates"], relevant: Bool[Tensor, "queries candidates"], tolerance: float = 1e-6
) -> Float[Tensor, " queries"]:
    """Average precision per query over all candidates (VSE-C, eq. 5): the mean precision at the ranks of relevant ones.

    Args:
        scores: Scores of the candidates of each query; minus infinity for a candidate that does not take part.
        relevant: True for relevant candidates.
        tolerance: As of `map_at_r`: equal scores give the expectation of a random order.

    Returns:
        Values from 0 to 1; NaN for queries without a relevant candidate.
    """
    total = relevant.sum(1)
    return _gains(scores, relevant, tolerance)[0].sum(1) / torch.where(total > 0, total, torch.nan)


def random_average_precision(num_relevant: np.ndarray, num_candidates: int) -> np.ndarray:
    """Expected average precision of a random ranking with R of N candidates relevant, in closed form.

    Place i is relevant with R / N; then each of the i - 1 places before it is, with (R - 1) / (N - 1). With the
    harmonic number H(N) the sum over places is (H(N) + (N - H(N)) (R - 1) / (N - 1)) / N. NaN if R is 0.
    """
    relevant = np.asarray(num_relevant, dtype=np.float64)
    harmonic = (1 / np.arange(1, num_candidates + 1)).sum()
    others = (relevant - 1) / max(num_candidates - 1, 1)
    return np.where(relevant > 0, (harmonic + (num_candidates - harmonic) * others) / num_candidates, np.nan)


def _gains(
    scores: Float[Tensor, "queries candidates"], relevant: Bool[Tensor, "queries candidates"], tolerance: float
) -> tuple[Float[Tensor, "queries candidates"], Float[Tensor, " candidates"]]:
    """(expected precision * relevance at each rank, the ranks)."""
    refuse_nan(scores)
    ranked, order = scores.sort(dim=1, descending=True)
    hit = relevant.gather(1, order).double()
    position = torch.arange(1, scores.shape[1] + 1, dtype=torch.float64, device=scores.device)
    new_run = _run_starts(ranked, Ties(tolerance=tolerance))
    run = new_run.long().cumsum(1) - 1
    zeros = torch.zeros_like(hit)
    size = zeros.scatter_add(1, run, torch.ones_like(hit)).gather(1, run)
    hits_in_run = zeros.scatter_add(1, run, hit).gather(1, run)
    start = torch.where(new_run, position - 1, 0.0).cummax(1).values  # candidates before the run
    hits_before = torch.where(new_run, hit.cumsum(1) - hit, 0.0).cummax(1).values
    # place m of a run of n with r relevant is relevant with r/n; then (m-1)(r-1)/(n-1) of those before it are too
    before_in_run = (position - start - 1) * (hits_in_run - 1) / (size - 1).clamp_min(1)
    return hits_in_run / size * (hits_before + 1 + before_in_run) / position, position


def _run_starts(ranked: Float[Tensor, "queries candidates"], ties: Ties) -> Bool[Tensor, "queries candidates"]:
    """Where a run of tied scores begins: at the first score, and at each first one that no longer ties with the start
    of the run before it. A chain of close neighbours that is wider than a tie is thus several runs.

    Each score knows which one would begin the next run. Starts are followed from all gaps at once, twice as far in each
    round, so that rounds grow with the logarithm of the runs in a chain.

    Args:
        ranked: Scores of each query, descending.
        ties: How far below a score others tie with it.
    """
    lowest = torch.where(ranked.isinf(), ranked, ties.limits(ranked)[0])
    following = torch.searchsorted(
        -ranked.contiguous(), -lowest.contiguous(), side="right"
    )  # one past the last place: no run
    starts = torch.ones(len(ranked), ranked.shape[1] + 1, dtype=torch.bool, device=ranked.device)
    starts[:, 1:-1] = ranked[:, 1:] < lowest[:, :-1]
    following = torch.cat([following, torch.full_like(following[:, :1], ranked.shape[1])], dim=1)
    while True:
        reached = starts.scatter(1, torch.where(starts, following, ranked.shape[1]), True)
        if torch.equal(reached, starts):
            return starts[:, :-1]
        starts, following = reached, following.gather(1, following)
