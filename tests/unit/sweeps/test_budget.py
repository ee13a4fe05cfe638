"""What trials need and cost, how many fit side by side, and when the next one may not start."""

import math
from dataclasses import replace
from typing import Any

import pytest

from vse.cluster.capacity import Capacity, NodeKind
from vse.config import override
from vse.errors import InputError
from vse.sweeps.budget import Budget, Caps, Meter, Resources
from vse.sweeps.ledger import Entry, typical_seconds

TRAINING, MEASURE = Resources(cpus=4, gpus=2), Resources()


def entry(name: str, took: float, state: Any = "finished", **result: object) -> Entry:
    return Entry(id=name, changes={"x": name}, state=state, seconds=took, result=result, spent=took)


def capped(limit: float = 0.0, spent: float = 0.0, **fields: Any) -> Meter:
    """A meter of trials of one CPU. `limit` and `spent`: seconds; 0: no limit."""
    return Meter(Budget(Caps(max_seconds=limit), Resources()), [(spent, Resources())] if spent else [], **fields)


def spent(meter: Meter) -> float:
    return sum(seconds for seconds, _ in meter.costs)


def end(meter: Meter, entry: Entry) -> None:
    meter.ended(entry.id, entry.spent, entry.need, entry.length if entry.complete else None)


def test_a_trial_is_as_long_as_its_training_over_all_restarts() -> None:
    assert entry("a", 3.0).length == 3.0
    assert entry("a", 3.0, seconds=40.0, trained=True).length == 40.0
    assert entry("a", 3.0, seconds=40.0, trained=False).length == 3.0  # another sweep has trained it


def test_what_trials_typically_take() -> None:
    assert typical_seconds([], Resources()) is None
    known = [entry("a", 10.0), entry("b", 30.0), entry("c", 11.0), entry("d", 1.0, stopped=True)]
    assert typical_seconds([*known, entry("e", 500.0, "failed")], Resources()) == 11.0


def test_trials_of_another_need_do_not_say_what_the_next_ones_take() -> None:
    """`train.workers` and shares of a GPU may differ between the calls of a sweep."""
    one, two = Resources(cpus=1), Resources(cpus=2, workers=2)
    had = (("a", 0.5, one), ("b", 0.4, one), ("c", 20.0, two), ("d", 24.0, two.after(6.0, 24.0)))  # the last one waited
    known = [replace(entry(name, took), need=need) for name, took, need in had]
    assert typical_seconds(known[:2], two) is None
    assert typical_seconds(known, two) == 22.0
    assert typical_seconds(known, one) == 0.45


def test_without_a_limit_everything_may_start() -> None:
    meter = capped()
    for number in range(1000):
        assert meter.allows()
        meter.started(str(number))


def test_what_runs_and_what_is_expected_count() -> None:
    now = [0.0]
    meter = capped(limit=100.0, spent=50.0, expected=20.0, clock=lambda: now[0])
    assert meter.allows()
    meter.started("a")
    assert meter.allows()  # 50 + 20 running + 20 new
    meter.started("b")
    assert not meter.allows()
    now[0] = 35.0
    end(meter, entry("a", 5.0))
    assert meter.elapsed("b") == 35.0
    assert not meter.allows()  # 55 + 35 running + 20 new
    end(meter, entry("b", 35.0, "failed"))
    assert spent(meter) == 90.0
    assert not meter.allows()


def test_waiting_for_a_place_costs_nothing() -> None:
    """Twelve trials of 300 s are handed out; one node comes after 1500 s."""
    now = [0.0]
    meter = capped(limit=7200.0, expected=300.0, clock=lambda: now[0])
    for number in range(12):
        assert meter.allows()
        meter.handed_out(str(number))
    assert (meter.running, meter.open) == (0, 12)
    now[0] = 1500.0
    assert meter.elapsed("0") == 0.0
    meter.started("0")
    now[0] = 1800.0
    assert (meter.elapsed("0"), meter.running, meter.open) == (300.0, 1, 12)
    end(meter, entry("0", 300.0))
    assert meter.allows()  # 300 + 11 * 300 + 300 of 7200
    for number in range(12, 24):
        assert meter.allows()
        meter.handed_out(str(number))
    assert not meter.allows()
    end(meter, entry("1", 0.0, "failed"))  # it had no place in the end
    assert (meter.open, meter.allows()) == (22, True)
    alone = capped(limit=10.0)
    alone.handed_out("a")
    assert (alone.allows(), alone.waits()) == (False, True)


def test_where_nothing_is_known_one_trial_starts_alone_and_its_end_tells() -> None:
    """With a trial of 36,000 s under a cap of 3,600 s, twelve places cost ten hours and not a hundred and twenty."""
    meter = capped(limit=3600.0)
    assert meter.allows()
    meter.started("a")
    assert not meter.allows()
    assert meter.waits()
    end(meter, entry("a", 36000.0))
    assert (meter.expected, spent(meter)) == (36000.0, 36000.0)
    assert not meter.allows()
    assert not meter.waits()
    assert not capped(limit=10.0, spent=10.0).allows()


def test_first_epochs_tell_what_a_trial_takes_until_one_has_ended() -> None:
    now = [0.0]
    meter = capped(limit=100.0, clock=lambda: now[0])
    meter.started("a")
    now[0] = 10.0
    meter.progressed("a", 0.25)
    assert meter.expected == 40.0
    assert meter.allows()
    meter.started("b")
    assert not meter.allows()  # 40 + 40 running + 40 new
    assert meter.waits()  # the guess may be too high: the start of a process is in it
    now[0] = 14.0
    meter.progressed("a", 0.5)
    assert meter.expected == 28.0
    assert meter.allows()
    end(meter, entry("a", 50.0))
    assert meter.expected == 50.0  # what is known now
    meter.progressed("b", 0.9)
    assert meter.expected == 50.0
    assert not meter.allows()
    assert not meter.waits()
    assert not capped().waits()


def test_an_estimate_is_not_replaced_by_a_guess_nor_by_trials_that_were_ended_early() -> None:
    now = [0.0]
    meter = capped(limit=100.0, expected=30.0, clock=lambda: now[0])
    meter.started("a")
    now[0] = 1.0
    meter.progressed("a", 0.5)
    end(meter, entry("a", 1.0, stopped=True))
    assert (meter.expected, spent(meter)) == (30.0, 1.0)


def test_attempts_count_once_each() -> None:
    """A failure of an hour, then an end whose training knows of both its hours: two hours, in this call or the next."""
    meter = capped()
    failed = entry("a", 3600.0, "failed")
    end(meter, failed)
    whole = Entry(
        id="a", changes={"x": "a"}, state="finished", seconds=3600.0, spent=7200.0, result={"seconds": 7000.0}
    )
    meter.ended(whole.id, whole.spent - failed.spent, whole.need, whole.length)
    assert spent(meter) == 7200.0


@pytest.mark.parametrize("limit", [20.0, 35.0, 60.0, 95.0])
def test_the_cap_is_kept_where_trials_take_what_is_expected(limit: float) -> None:
    """Two side by side of 10 s each, with a clock of our own: what is spent never exceeds the cap."""
    now = [0.0]
    meter = capped(limit=limit, expected=10.0, clock=lambda: now[0])
    running: list[tuple[str, float]] = []
    for number in range(50):
        while len(running) >= 2 or (running and not meter.allows()):
            name, start = running.pop(0)
            now[0] = start + 10.0
            end(meter, entry(name, 10.0))
        if not meter.allows():
            break
        meter.started(str(number))
        running.append((str(number), now[0]))
    assert spent(meter) <= limit
    assert spent(meter) > limit - 10.0


def caps(**given: float) -> Caps:
    return override(Caps(), given)


def test_without_caps_nothing_is_limited() -> None:
    budget = Budget(Caps(), TRAINING)
    assert budget.left([(1e9, TRAINING)]) == math.inf
    assert budget.lines([(1e9, TRAINING)]) == []


def test_every_cap_counts_what_is_its_own() -> None:
    """By hand: 100 s of trainings and 50 s of measures before."""
    spent = [(60.0, TRAINING), (50.0, MEASURE), (40.0, TRAINING)]
    assert Budget(caps(max_seconds=200), TRAINING).left(spent) == 50
    hours = Budget(caps(max_gpu_hours=0.1), TRAINING)  # 360 GPU-seconds, of which two a second
    assert hours.left(spent) == pytest.approx(80)
    paid = Budget(caps(max_cost=1.0, price=3.6), TRAINING)  # 0.001 a GPU-second
    assert paid.left(spent) == pytest.approx(400)
    assert Budget(caps(max_seconds=160, max_cost=1.0, price=3.6), TRAINING).left(spent) == 10
    assert Budget(caps(max_seconds=120), TRAINING).left(spent) == -30


def test_a_price_is_of_cpus_where_trainings_take_no_gpu() -> None:
    wide = Resources(cpus=4)
    budget = Budget(caps(max_cost=1.0, price=3.6), wide)
    assert budget.money(1000.0) == pytest.approx(4.0)
    assert budget.money(1000.0, MEASURE) == pytest.approx(1.0)
    assert budget.left([(100.0, wide), (100.0, MEASURE)]) == pytest.approx(125)


def test_a_meter_starts_with_what_is_left() -> None:
    budget = Budget(caps(max_seconds=100), TRAINING)
    assert Meter(budget, [(30.0, TRAINING)], expected=30.0).allows()
    assert not Meter(budget, [(75.0, TRAINING)], expected=30.0).allows()
    assert not Meter(budget, [(100.0, TRAINING)]).allows()


@pytest.mark.parametrize(
    ("given", "another"),
    [
        ({"max_seconds": 7000.0}, False),
        ({"max_seconds": 7200.0}, True),
        ({"max_gpu_hours": 7000 * 2 / 3600}, True),
        ({"max_gpu_hours": 6200 * 2 / 3600}, False),
        ({"max_cost": 7000 * 2 / 3600, "price": 1.0}, True),
        ({"max_seconds": 7000.0, "max_gpu_hours": 100.0}, False),
        ({"max_seconds": 7100.0, "max_gpu_hours": 7000 * 2 / 3600}, False),  # at first the other one binds
        ({"max_seconds": 9000.0, "max_gpu_hours": 6200 * 2 / 3600}, False),
    ],
)
def test_a_wait_for_places_counts_alike_in_the_call_and_after_it(given: dict[str, float], another: bool) -> None:
    """Of an hour a trial of two workers had its GPUs for three quarters: time counts whole, what is paid does not."""
    need = Resources(cpus=4, gpus=2, workers=2)
    had = Resources(cpus=3.025, gpus=1.5, workers=2)
    meter = Meter(Budget(caps(**given), need))
    meter.ended("a", 3600.0, had, 3600.0)
    assert meter.allows() == another
    assert Meter(Budget(caps(**given), need), [(3600.0, had)], expected=3600.0).allows() == another


def test_lines_of_a_dry_run() -> None:
    lines = Budget(caps(max_seconds=200, max_cost=1.0, price=3.6), TRAINING).lines([(60.0, TRAINING), (50.0, MEASURE)])
    assert [line.partition(" spent")[0] for line in lines] == ["cap: 200 s of trials, 110", "cap: 1 of money, 0.12"]
    assert Budget(caps(price=3.6), TRAINING).priced(1800.0) == ", 1.00 GPU-hours, 3.60 of money"
    assert Budget(Caps(), MEASURE).priced(1800.0) == ""


@pytest.mark.parametrize(
    ("given", "need", "message"),
    [
        ({"max_gpu_hours": 1}, MEASURE, r"sweep\.max_gpu_hours: trials of this sweep take no GPU; use sweep\.max_sec"),
        ({"max_cost": 5}, MEASURE, r"sweep\.max_cost=5: needs sweep\.price, the price of a CPU-hour of trials"),
        ({"max_cost": 5}, TRAINING, r"sweep\.max_cost=5: needs sweep\.price, the price of a GPU-hour of trials"),
    ],
)
def test_caps_that_say_nothing_are_refused(given: dict[str, float], need: Resources, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Budget(caps(**given), need).check()


def test_how_many_trials_fit() -> None:
    assert Resources().at_once({"CPU": 3.0}) == 3
    assert Resources().at_once({"CPU": 3.0}, wished=2) == 2
    assert Resources(cpus=2).at_once({"CPU": 3.0}) == 1
    assert Resources(cpus=1, gpus=0.5).at_once({"CPU": 16.0, "GPU": 2.0}) == 4
    # two workers of one CPU each and a driver: never so many drivers that no worker can start
    assert Resources(cpus=2, workers=2).at_once({"CPU": 4.3}) == 2
    assert Resources(cpus=2, workers=2).at_once({"CPU": 4.0}) == 1
    assert Resources(cpus=2, workers=2).of_trial() == {"CPU": 0.1}
    with pytest.raises(InputError, match="a trial needs 4 CPUs and 0 GPUs, the cluster has 2 and 0"):
        Resources(cpus=4).at_once({"CPU": 2.0})
    with pytest.raises(InputError, match="1 GPUs, the cluster has 8 and 0"):
        Resources(gpus=1).at_once({"CPU": 8.0})


def test_trials_of_several_workers_have_places_on_nodes_and_not_in_sums() -> None:
    hosts = Capacity((NodeKind(8.0, count=4),))

    def at_once(workers: int, threads: int) -> int:
        need = Resources(cpus=float(workers * threads), workers=workers)
        return need.at_once(need.most(hosts))

    assert at_once(2, 3) == 4  # two places on each host, though 32 CPUs are those of five trials
    assert at_once(2, 4) == 3  # the drivers of four would take the place of a worker
    assert at_once(8, 3) == 1
    with pytest.raises(InputError, match="needs 9 workers of 3 CPUs and 0 GPUs of one node, but the cluster has 32 "):
        at_once(9, 3)
    with pytest.raises(InputError, match="a trial needs 64 CPUs and 0 GPUs of one node, but the cluster has 3 and 0 "):
        Resources(cpus=64).most(Capacity((NodeKind(3.0),)))


def test_what_a_trial_has_while_it_waits_for_its_workers() -> None:
    assert Resources(cpus=4, gpus=2, workers=2).waiting == Resources(cpus=0.1)
    assert Resources(cpus=2).waiting == Resources(cpus=2)


@pytest.mark.parametrize(
    ("had", "alike"),
    [
        (Resources(cpus=4, gpus=2, workers=2), True),
        (Resources(cpus=3.025, gpus=1.5, workers=2), True),  # its workers waited for a quarter of its time
        (Resources(cpus=1.075, gpus=0.5, workers=2), True),  # for three quarters
        (Resources(cpus=4, gpus=1, workers=2), False),  # half the share of a GPU
        (Resources(cpus=3.025, gpus=0.75, workers=2), False),
        (Resources(cpus=4, workers=2), False),
        (Resources(cpus=2, gpus=1), False),  # one worker
        (Resources(cpus=4, gpus=2), False),
        (Resources(cpus=6, gpus=3, workers=3), False),
        (Resources(cpus=4, gpus=2, workers=4), False),
    ],
)
def test_trials_of_two_workers_are_told_from_others(had: Resources, alike: bool) -> None:
    assert Resources(cpus=4, gpus=2, workers=2).of_kind(had) == alike


def test_trials_of_one_worker_are_told_from_others() -> None:
    assert Resources(cpus=2, gpus=0.5).of_kind(Resources(cpus=2, gpus=0.5))
    assert not Resources(cpus=2, gpus=0.5).of_kind(Resources(cpus=2, gpus=1.0))
    assert not Resources(cpus=2).of_kind(Resources(cpus=4))
    assert not Resources(cpus=2).of_kind(Resources(cpus=2, workers=2))
    assert Resources().of_kind(Resources())
