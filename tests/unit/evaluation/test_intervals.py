"""Intervals over seeds against a simulation and known values."""

import math

import numpy as np
import pytest

from vse.evaluation.intervals import interval, quantile


def test_closed_form() -> None:
    found = interval([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.half == pytest.approx(4.302653 / math.sqrt(3), abs=1e-6)
    assert str(interval([1.0, 2.0, 3.0])) == "2.0 ± 2.5"


def test_one_seed_has_no_interval() -> None:
    found = interval([5.0])
    assert (found.mean, found.count) == (5.0, 1)
    assert math.isnan(found.half)
    assert str(found) == "5.0"


@pytest.mark.parametrize("seeds", [2, 3, 5, 10, 40])
def test_coverage(seeds: int) -> None:
    rng = np.random.default_rng(seeds)
    found = [interval(list(row)) for row in rng.normal(3.0, 2.0, (4000, seeds))]
    share = np.mean([abs(each.mean - 3.0) <= each.half for each in found])
    assert share == pytest.approx(0.95, abs=0.015)


def test_quantiles_fall_to_the_normal_one() -> None:
    values = [quantile(k) for k in range(1, 200)]
    assert values == sorted(values, reverse=True)
    assert quantile(60) == pytest.approx(2.000, abs=0.003)
    assert quantile(10_000) == pytest.approx(1.96, abs=0.001)
