"""Learning rates against closed forms."""

import math

import pytest

from vse.training.config import OptimConfig
from vse.training.step import learning_rate


def test_constant():
    config = OptimConfig(lr=0.01, schedule="constant")
    assert [learning_rate(config, e, 10) for e in (0, 0.5, 9.9)] == [0.01] * 3


def test_step_divides_every_fifteen_epochs():
    config = OptimConfig(lr=2e-4, schedule="step", every=15, factor=0.1)
    for epoch in (0, 7.5, 14.99, 15, 29.9, 30):
        assert learning_rate(config, epoch, 30) == pytest.approx(2e-4 * 0.1 ** math.floor(epoch / 15), rel=1e-12)


def test_halving_as_univse():
    """A.3: 0.001 for six epochs, halved at each further one, never below 1e-5."""
    config = OptimConfig(lr=1e-3, schedule="halving", every=6, floor=1e-5)
    rates = [learning_rate(config, epoch, 30) for epoch in range(30)]
    assert rates[:6] == [1e-3] * 6
    assert rates[6:12] == pytest.approx([1e-3 / 2**k for k in range(1, 7)], rel=1e-12)
    assert rates[12:] == [1e-5] * 18
    assert learning_rate(config, 6.7, 30) == rates[6]


def test_a_rate_below_the_floor_is_never_raised():
    config = OptimConfig(lr=1e-6, schedule="halving", every=2, floor=1e-5)
    assert [learning_rate(config, e, 9) for e in range(9)] == [1e-6] * 9


def test_milestones_as_the_relational_thesis():
    """3.4: 2e-5, 1e-5 at epoch 9, 2e-6 at epoch 15, counted from 1."""
    config = OptimConfig(lr=2e-5, schedule="milestones", milestones=(8, 14), factors=(0.5, 0.1))
    rates = [learning_rate(config, epoch, 20) for epoch in range(20)]
    assert rates == pytest.approx([2e-5] * 8 + [1e-5] * 6 + [2e-6] * 6, rel=1e-12)
    assert learning_rate(config, 13.99, 20) == rates[13]


def test_the_last_factor_serves_further_milestones_and_none_is_needed():
    config = OptimConfig(lr=1.0, schedule="milestones", milestones=(1, 2, 3), factors=(0.5,))
    assert [learning_rate(config, epoch, 5) for epoch in range(5)] == [1.0, 0.5, 0.5, 0.5, 0.5]
    assert learning_rate(OptimConfig(lr=1.0, schedule="milestones", factors=()), 4, 5) == 1.0
    assert learning_rate(OptimConfig(lr=1.0, schedule="milestones", milestones=(1,), factors=()), 4, 5) == 1.0


def test_cosine():
    config = OptimConfig(lr=0.3, schedule="cosine")
    for share in (0.0, 0.25, 0.5, 1.0):
        expected = 0.15 * (1 + math.cos(math.pi * share))
        assert learning_rate(config, 20 * share, 20) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize("warmup", [0.5, 1.0, 3.0])
def test_warmup_rises_from_almost_nothing_to_the_rate_and_not_above(warmup):
    config = OptimConfig(lr=0.02, schedule="constant", warmup=warmup)
    rates = [learning_rate(config, warmup * k / 1000, 10) for k in range(1001)]
    assert 0 < rates[0] < 0.02 * 0.01
    assert rates == sorted(rates)
    assert max(rates) == 0.02
    assert rates[500] == pytest.approx(0.01, rel=0.01)
