"""What trials cost, and when the next one may not start."""

import pytest

from vse.sweeps.budget import Meter, cost, typical
from vse.sweeps.ledger import Entry


def entry(name: str, took: float, state: str = "finished", **result: object) -> Entry:
    return Entry(id=name, changes={"x": name}, state=state, seconds=took, result=result)  # type: ignore[arg-type]


def test_a_trial_costs_its_training_over_all_restarts() -> None:
    assert cost(entry("a", 3.0)) == 3.0
    assert cost(entry("a", 3.0, seconds=40.0, trained=True)) == 40.0
    assert cost(entry("a", 3.0, seconds=40.0, trained=False)) == 3.0  # another sweep has paid for it
    assert cost(entry("a", 7.0, "failed")) == 7.0


def test_what_trials_typically_take() -> None:
    assert typical([]) is None
    known = [entry("a", 10.0), entry("b", 30.0), entry("c", 11.0), entry("d", 1.0, stopped=True)]
    assert typical([*known, entry("e", 500.0, "failed")]) == 11.0


def test_without_a_limit_everything_may_start() -> None:
    meter = Meter()
    for number in range(1000):
        assert meter.allows()
        meter.started(str(number))


def test_what_runs_and_what_is_expected_count() -> None:
    now = [0.0]
    meter = Meter(limit=100.0, spent=50.0, expected=20.0, clock=lambda: now[0])
    assert meter.allows()
    meter.started("a")
    assert meter.allows()  # 50 + 20 running + 20 new
    meter.started("b")
    assert not meter.allows()
    now[0] = 35.0
    meter.ended(entry("a", 5.0))
    assert meter.elapsed("b") == 35.0
    assert not meter.allows()  # 55 + 35 running + 20 new
    meter.ended(entry("b", 35.0, "failed"))
    assert meter.spent == 90.0
    assert not meter.allows()


def test_the_first_trials_start_where_nothing_is_known() -> None:
    meter = Meter(limit=10.0)
    assert meter.allows()
    meter.started("a")
    assert meter.allows()
    meter.ended(entry("a", 6.0))
    assert meter.expected == 6.0
    assert not meter.allows()
    assert not Meter(limit=10.0, spent=10.0).allows()


@pytest.mark.parametrize("limit", [20.0, 35.0, 60.0, 95.0])
def test_the_cap_is_kept_where_trials_take_what_is_expected(limit: float) -> None:
    """Two side by side of 10 s each, with a clock of our own: what is spent never exceeds the cap."""
    now = [0.0]
    meter = Meter(limit=limit, expected=10.0, clock=lambda: now[0])
    running: list[tuple[str, float]] = []
    for number in range(50):
        while len(running) >= 2 or (running and not meter.allows()):
            name, start = running.pop(0)
            now[0] = start + 10.0
            meter.ended(entry(name, 10.0))
        if not meter.allows():
            break
        meter.started(str(number))
        running.append((str(number), now[0]))
    assert meter.spent <= limit
    assert meter.spent > limit - 10.0
