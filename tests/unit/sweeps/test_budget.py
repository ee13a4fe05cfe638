"""What trials cost, and when the next one may not start."""

from dataclasses import replace

import pytest

from vse.sweeps.budget import Meter, length, typical
from vse.sweeps.ledger import Entry
from vse.sweeps.resources import Resources


def entry(name: str, took: float, state: str = "finished", **result: object) -> Entry:
    return Entry(id=name, changes={"x": name}, state=state, seconds=took, result=result, spent=took)  # type: ignore[arg-type]


def test_a_trial_is_as_long_as_its_training_over_all_restarts() -> None:
    assert length(entry("a", 3.0)) == 3.0
    assert length(entry("a", 3.0, seconds=40.0, trained=True)) == 40.0
    assert length(entry("a", 3.0, seconds=40.0, trained=False)) == 3.0  # another sweep has trained it


def test_what_trials_typically_take() -> None:
    assert typical([], Resources()) is None
    known = [entry("a", 10.0), entry("b", 30.0), entry("c", 11.0), entry("d", 1.0, stopped=True)]
    assert typical([*known, entry("e", 500.0, "failed")], Resources()) == 11.0


def test_trials_of_another_need_do_not_say_what_the_next_ones_take() -> None:
    """`train.workers` and shares of a GPU may differ between the calls of a sweep."""
    one, two = Resources(cpus=1), Resources(cpus=2, workers=2)
    had = (("a", 0.5, one), ("b", 0.4, one), ("c", 20.0, two), ("d", 24.0, two.after(6.0, 24.0)))  # the last one waited
    known = [replace(entry(name, took), need=need) for name, took, need in had]
    assert typical(known[:2], two) is None
    assert typical(known, two) == 22.0
    assert typical(known, one) == 0.45


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


def test_waiting_for_a_place_costs_nothing() -> None:
    """Twelve trials of 300 s are handed out; one node comes after 1500 s."""
    now = [0.0]
    meter = Meter(limit=7200.0, expected=300.0, clock=lambda: now[0])
    for number in range(12):
        assert meter.allows()
        meter.handed_out(str(number))
    assert (meter.running, meter.open) == (0, 12)
    now[0] = 1500.0
    assert meter.elapsed("0") == 0.0
    meter.started("0")
    now[0] = 1800.0
    assert (meter.elapsed("0"), meter.running, meter.open) == (300.0, 1, 12)
    meter.ended(entry("0", 300.0))
    assert meter.allows()  # 300 + 11 * 300 + 300 of 7200
    for number in range(12, 24):
        assert meter.allows()
        meter.handed_out(str(number))
    assert not meter.allows()
    meter.ended(entry("1", 0.0, "failed"))  # it had no place in the end
    assert (meter.open, meter.allows()) == (22, True)
    alone = Meter(limit=10.0)
    alone.handed_out("a")
    assert (alone.allows(), alone.waits()) == (False, True)


def test_where_nothing_is_known_one_trial_starts_alone_and_its_end_tells() -> None:
    """With a trial of 36,000 s under a cap of 3,600 s, twelve places cost ten hours and not a hundred and twenty."""
    meter = Meter(limit=3600.0)
    assert meter.allows()
    meter.started("a")
    assert not meter.allows()
    assert meter.waits()
    meter.ended(entry("a", 36000.0))
    assert (meter.expected, meter.spent) == (36000.0, 36000.0)
    assert not meter.allows()
    assert not meter.waits()
    assert not Meter(limit=10.0, spent=10.0).allows()


def test_first_epochs_tell_what_a_trial_takes_until_one_has_ended() -> None:
    now = [0.0]
    meter = Meter(limit=100.0, clock=lambda: now[0])
    meter.started("a")
    now[0] = 10.0
    meter.told("a", 0.25)
    assert meter.expected == 40.0
    assert meter.allows()
    meter.started("b")
    assert not meter.allows()  # 40 + 40 running + 40 new
    assert meter.waits()  # the guess may be too high: the start of a process is in it
    now[0] = 14.0
    meter.told("a", 0.5)
    assert meter.expected == 28.0
    assert meter.allows()
    meter.ended(entry("a", 50.0))
    assert meter.expected == 50.0  # what is known now
    meter.told("b", 0.9)
    assert meter.expected == 50.0
    assert not meter.allows()
    assert not meter.waits()
    assert not Meter().waits()


def test_an_estimate_is_not_replaced_by_a_guess_nor_by_trials_that_were_ended_early() -> None:
    now = [0.0]
    meter = Meter(limit=100.0, expected=30.0, clock=lambda: now[0])
    meter.started("a")
    now[0] = 1.0
    meter.told("a", 0.5)
    meter.ended(entry("a", 1.0, stopped=True))
    assert (meter.expected, meter.spent) == (30.0, 1.0)


def test_attempts_count_once_each() -> None:
    """A failure of an hour, then an end whose training knows of both its hours: two hours, in this call or the next."""
    meter = Meter()
    failed = entry("a", 3600.0, "failed")
    meter.ended(failed)
    whole = Entry(
        id="a", changes={"x": "a"}, state="finished", seconds=3600.0, spent=7200.0, result={"seconds": 7000.0}
    )
    meter.ended(whole, before=failed.spent)
    assert meter.spent == 7200.0


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
