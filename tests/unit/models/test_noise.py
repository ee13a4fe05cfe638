"""Draws keyed by caption: the numpy twin, moments, and independence of the company."""

import numpy as np
import torch

from vse.data import keyed
from vse.models.noise import normal, uniform

KEYS = keyed.keys(7, 3, "draw", np.arange(4000))
DRAW = torch.from_numpy(KEYS.view(np.int64))


def test_uniform_is_the_numpy_twins():
    with np.errstate(over="ignore"):
        for stream in (0, 5):
            expected = keyed.uniform(keyed.mix(KEYS + np.uint64(stream)), 7)
            np.testing.assert_array_equal(uniform(DRAW, 7, stream).numpy(), expected)


def test_a_captions_draws_do_not_depend_on_the_batch():
    rows = torch.tensor([17, 3, 17])
    assert torch.equal(normal(DRAW[rows], 5), normal(DRAW, 5)[rows])
    assert torch.equal(uniform(DRAW, 9)[:, :4], uniform(DRAW, 4))
    assert normal(DRAW[:0], 3).shape == (0, 3)


def test_moments():
    draws = normal(DRAW, 11)
    assert draws.isfinite().all()
    assert float(draws.mean(0).abs().max()) < 0.06
    assert float((draws.var(0) - 1).abs().max()) < 0.1
    together = torch.cat([draws, normal(DRAW, 11, stream=1)], dim=1)
    correlation = torch.corrcoef(together.T) - torch.eye(22)
    assert float(correlation.abs().max()) < 0.07
    flat = uniform(DRAW, 50).flatten()
    assert float((flat.histc(20, 0, 1) / len(flat) * 20 - 1).abs().max()) < 0.06
