"""Searches that maximise two numbers apart: the points come near the Pareto front, also after a stop."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ray import tune

from tests.levels import slow_but
from tests.unit.sweeps.test_informed_search import FLAT, Searched
from vse.sweeps.ledger import FailureKind
from vse.sweeps.optuna_search import SEARCHES
from vse.sweeps.space import Space

pytest.importorskip("optuna")

SEEDS = 3


def left(changes: Mapping[str, Any]) -> float:
    return 100 - 100 * (changes["alpha"] - 0.3) ** 2 - 20 * changes["every"]


def right(changes: Mapping[str, Any]) -> float:
    return 100 - 100 * (changes["alpha"] - 0.7) ** 2 - 20 * changes["every"]


@pytest.fixture(params=["tpe"], autouse=True)
def sampler(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gaussian processes of two objectives take half a second a draw: one test is enough."""
    monkeypatch.setattr(Searched, "kind", SEARCHES[request.param])
    monkeypatch.setattr(Searched, "measured", (left, right))


def test_informed_points_are_on_the_front_more_often_than_random_ones(tmp_path: Path) -> None:
    """The front is alpha in [0.3, 0.7] with every = 1: two fifteenths of the space."""
    before = after = 0
    for seed in range(SEEDS):
        done = Searched(tmp_path / str(seed), FLAT, samples=24, num_initial=12, seed=seed, objectives=2).work()
        near = [c["every"] == 1 and 0.3 <= c["alpha"] <= 0.7 for c in done]
        before, after = before + sum(near[:12]), after + sum(near[12:])
    assert after > 2 * before


def test_both_ends_of_the_front_are_found(tmp_path: Path) -> None:
    done = Searched(tmp_path, FLAT, samples=40, num_initial=12, objectives=2).work()
    assert min(abs(c["alpha"] - 0.3) for c in done if c["every"] == 1) < 0.1
    assert min(abs(c["alpha"] - 0.7) for c in done if c["every"] == 1) < 0.1


@pytest.mark.seconds
@pytest.mark.parametrize("sampler", slow_but(sorted(SEARCHES), "tpe"), indirect=True)
def test_stopped_it_draws_as_it_would_have(tmp_path: Path) -> None:
    keys: dict[str, Any] = {"samples": 12, "num_initial": 5, "objectives": 2}
    whole = Searched(tmp_path / "whole", FLAT, **keys).work()
    first = Searched(tmp_path / "parts", FLAT, **keys).work(most=8)
    assert first + Searched(tmp_path / "parts", FLAT, **keys).work() == whole


@pytest.mark.seconds
def test_points_that_diverged_are_avoided(tmp_path: Path) -> None:
    """As the worst of both objectives. Of other failures nothing is learnt."""
    space = Space("here", {"alpha": tune.uniform(0.0, 1.0)})

    def failed(kind: FailureKind) -> int:
        count = 0
        for seed in range(SEEDS):
            folder = tmp_path / f"{kind.name}{seed}"
            searched = Searched(folder, space, samples=30, num_initial=8, seed=seed, objectives=2)
            while (changes := searched.search.propose()) is not None:
                if changes["alpha"] > 0.6:
                    count += 1
                    entry = searched.ledger.fail(changes, "no", kind=kind)
                else:
                    value = 100 * changes["alpha"]
                    entry = searched.ledger.finish(changes, {"objectives": [value, value]}, 1.0)
                searched.search.ended(entry, final=True)
        return count

    assert failed(FailureKind.DIVERGED) < failed(FailureKind.ERROR)
