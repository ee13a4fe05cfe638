"""What may be spent on trials that differ in what they take."""

import math
from dataclasses import replace

import pytest

from vse.config import override
from vse.errors import InputError
from vse.sweeps.caps import Budget, Caps
from vse.sweeps.ledger import Entry
from vse.sweeps.resources import Resources

TRAINING, MEASURE = Resources(cpus=4, gpus=2), Resources()


def caps(**given: float) -> Caps:
    return override(Caps(), given)


def test_without_caps_nothing_is_limited() -> None:
    budget = Budget(Caps(), TRAINING)
    assert budget.left([(1e9, TRAINING)], TRAINING) == math.inf
    assert budget.lines([(1e9, TRAINING)]) == []


def test_every_cap_counts_what_is_its_own() -> None:
    """By hand: 100 s of trainings and 50 s of measures before."""
    spent = [(60.0, TRAINING), (50.0, MEASURE), (40.0, TRAINING)]
    assert Budget(caps(max_seconds=200), TRAINING).left(spent, TRAINING) == 50
    assert Budget(caps(max_seconds=200), TRAINING).left(spent, MEASURE) == 50
    hours = Budget(caps(max_gpu_hours=0.1), TRAINING)  # 360 GPU-seconds, of which two a second
    assert hours.left(spent, TRAINING) == pytest.approx(80)
    assert hours.left(spent, MEASURE) == math.inf
    paid = Budget(caps(max_cost=1.0, price=3.6), TRAINING)  # 0.001 a GPU-second
    assert paid.left(spent, TRAINING) == pytest.approx(400)
    assert paid.left(spent, MEASURE) == math.inf
    assert Budget(caps(max_seconds=160, max_cost=1.0, price=3.6), TRAINING).left(spent, TRAINING) == 10
    assert Budget(caps(max_seconds=120), TRAINING).left(spent, TRAINING) == -30


def test_a_price_is_of_cpus_where_trainings_take_no_gpu() -> None:
    wide = Resources(cpus=4)
    budget = Budget(caps(max_cost=1.0, price=3.6), wide)
    assert budget.money(1000.0) == pytest.approx(4.0)
    assert budget.money(1000.0, MEASURE) == pytest.approx(1.0)
    assert budget.left([(100.0, wide), (100.0, MEASURE)], MEASURE) == pytest.approx(500)


def test_a_meter_starts_with_what_is_left_and_what_trials_like_these_took() -> None:
    known = Entry(id="a", changes={}, state="finished", seconds=30.0, need=TRAINING)
    budget = Budget(caps(max_seconds=100), TRAINING)
    meter = budget.meter([(30.0, TRAINING)], TRAINING, [known])
    assert (meter.limit, meter.expected) == (70.0, 30.0)
    assert meter.allows()
    assert not budget.meter([(75.0, TRAINING)], TRAINING, [known]).allows()
    smaller = replace(known, need=Resources(cpus=2.0, gpus=1.0))
    assert budget.meter([(75.0, TRAINING)], TRAINING, [smaller]).expected is None
    assert budget.meter([(75.0, TRAINING)], MEASURE, []).allows()
    assert not budget.meter([(100.0, TRAINING)], MEASURE, []).allows()


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
    entry = Entry(id="a", changes={}, state="finished", seconds=3600.0, spent=3600.0, need=had)
    meter = Budget(caps(**given), need).meter([], need, [])
    meter.ended(entry, share=had.share_of(need))
    assert meter.allows() == another
    assert Budget(caps(**given), need).meter([(3600.0, had)], need, [entry]).allows() == another


def test_an_estimate_is_made_where_a_cap_is_set_and_no_trial_says_what_one_takes() -> None:
    asked: list[float] = []

    def estimate() -> float:
        asked.append(36000.0)
        return 36000.0

    known = Entry(id="a", changes={}, state="finished", seconds=30.0, need=TRAINING)
    assert Budget(Caps(), TRAINING).meter([], TRAINING, [], estimate).expected is None
    assert Budget(caps(max_gpu_hours=1), TRAINING).meter([], TRAINING, [known], estimate).expected == 30.0
    assert Budget(caps(max_gpu_hours=1), TRAINING).meter([], MEASURE, [], estimate).expected is None  # none of its cap
    assert asked == []
    meter = Budget(caps(max_gpu_hours=1), TRAINING).meter([], TRAINING, [], estimate)
    assert (meter.expected, len(asked)) == (36000.0, 1)
    assert not meter.allows()


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
