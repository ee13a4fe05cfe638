"""True pairs as positives: against a plain loop over sorted scores, both ways."""

import numpy as np
import pytest
import torch

from tests.synthetic import make_family, synthetic
from tests.unit.evaluation.contexts import context_of
from vse.evaluation.tasks.true_pairs import TruePairsTask


def average_precision_at_r(scores, relevant):
    """Of one query without ties, by its definition."""
    ranked = relevant[np.argsort(-scores)][: relevant.sum()]
    return sum(ranked[: k + 1].mean() for k in np.flatnonzero(ranked)) / relevant.sum()


def test_against_a_loop():
    rng = np.random.default_rng(0)
    images, captions = (
        torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(n, 5))), dim=1) for n in (7, 13)
    )
    truth = rng.random((7, 13)) < 0.3
    truth[2] = False  # an image of which no caption is true is no query
    family = make_family("vsepp", synthetic(0).context)
    context = context_of(family, {"images": images}, {"captions": captions}, np.sort(rng.integers(0, 7, 13)))
    context.runs.truth = lambda split: truth
    found = TruePairsTask().measure(context)
    scores = (images @ captions.T).numpy()
    for side, ranked, true in (("i2t", scores, truth), ("t2i", scores.T, truth.T)):
        queries = [k for k in range(len(ranked)) if true[k].any()]
        expected = 100 * np.mean([average_precision_at_r(ranked[k], true[k]) for k in queries])
        assert found[f"true_pairs/{side}/map_at_r"] == pytest.approx(expected, rel=1e-6)
        first = 100 * np.mean([true[k][np.argmax(ranked[k])] for k in queries])
        assert found[f"true_pairs/{side}/r1"] == pytest.approx(first)
