"""Importance finds the key that matters and says when it cannot know."""

import dataclasses

import numpy as np
import pytest

from tests.levels import slow
from tests.unit.report.responses import conditional, drawn, full_grid, one_at_a_time
from vse.report.importance import encoded, importance
from vse.report.response_page import importance_text

pytestmark = pytest.mark.seconds


@pytest.mark.parametrize("results", [drawn(60), *slow([full_grid()])])
def test_what_matters_comes_first(results) -> None:
    found = importance(results)
    assert found is not None
    assert next(iter(found.shares)) == "objective.eta_c"
    assert list(found.shares)[-1] == "objective.eta_r"  # changes nothing
    assert abs(found.shares["objective.eta_r"][0]) < 0.1
    assert found.shares["objective.eta_c"][0] > 0.5


@pytest.mark.slow
def test_noise_is_not_explained() -> None:
    results = drawn(60)
    rng = np.random.default_rng(0)
    points = [dataclasses.replace(p, metrics={"objective": [float(rng.normal())] * 2}) for p in results.points]
    found = importance(dataclasses.replace(results, points=points))
    assert found is not None
    assert found.explained < 0.2
    found = importance(drawn(60))
    assert found is not None
    assert found.explained > 0.6


def test_too_little_to_say_anything() -> None:
    assert importance(drawn(8)) is None  # one of them was ended early
    few = one_at_a_time()
    assert importance(dataclasses.replace(few, keys=["objective.eta_c"])) is None
    flat = [dataclasses.replace(p, metrics={"objective": [1.0, 1.0]}) for p in few.points]
    assert importance(dataclasses.replace(few, points=flat)) is None


def test_keys_below_alternatives_are_left_out_and_the_others_judged_over_all_points() -> None:
    found = importance(conditional())
    assert found is not None
    assert list(found.shares) == ["optim.lr", "objective"]
    assert found.points == 40
    assert found.left_out == ("objective.margin", "objective.temperature")
    text = importance_text(found)
    assert text.endswith("Keys that only some points have are left out: objective.margin, objective.temperature.")
    found = importance(drawn(60))
    assert found is not None
    assert "left out" not in importance_text(found)


def test_positive_numbers_enter_as_logarithms_and_texts_by_place() -> None:
    results = full_grid()
    table = encoded(results)
    assert table.shape == (12, 3)
    assert sorted(set(table[:, 0])) == pytest.approx([np.log(0.1), 0.0, np.log(8.0)])
    assert set(table[:, 2]) == {0.0, 1.0}
