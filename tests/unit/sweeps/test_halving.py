"""Successive halving on top of the ledger, against Tune's scheduler. No Ray process is needed."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from ray.tune.schedulers import ASHAScheduler, TrialScheduler

from tests.unit.sweeps.test_objective_plan import request
from vse.sweeps.halving import _TrialStub, halving
from vse.sweeps.ledger import Entry, Ledger, open_sweep, trial_id
from vse.sweeps.objective import make_plan
from vse.sweeps.plan import SweepCall
from vse.sweeps.trial_process import EPOCH, OBJECTIVE
from vse.workspace.layout import Workspace

CURVES = {"a": [10.0, 20, 30, 40, 50, 60, 70, 80, 90], "b": [11.0, 12, 13], "c": [30.0, 31, 32, 33, 34, 35, 36, 37, 38]}


def entry(name: str) -> Entry:
    curve = CURVES[name]
    return Entry(id=name, changes={}, state="finished", result={"curve": curve, "stopped": len(curve) < 9})


def decision(scheduler: ASHAScheduler, name: str, epoch: int, value: float) -> str:
    trial: Any = _TrialStub(name)
    nobody: Any = None
    if name not in scheduler._trial_info:
        scheduler.on_trial_add(nobody, trial)
    return scheduler.on_trial_result(nobody, trial, {EPOCH: epoch, OBJECTIVE: value})


def test_rungs_are_those_of_a_scheduler_that_was_never_stopped() -> None:
    live = halving(9, 1, 3.0, [])
    for name, curve in CURVES.items():
        for epoch, value in enumerate(curve if len(curve) < 9 else curve[:-1], start=1):
            decision(live, name, epoch, value)
    told = halving(9, 1, 3.0, [entry(name) for name in CURVES])
    assert told._brackets[0]._rungs == live._brackets[0]._rungs
    assert told._brackets[0]._rungs[-1] == (1.0, {"a": 10.0, "b": 11.0, "c": 30.0})


def test_a_trial_that_is_behind_ends_and_one_ahead_goes_on() -> None:
    scheduler = halving(9, 1, 3.0, [entry("a"), entry("c")])
    assert decision(scheduler, "new", 1, 5.0) == TrialScheduler.STOP
    assert decision(scheduler, "better", 1, 31.0) == TrialScheduler.CONTINUE
    assert decision(scheduler, "better", 2, 0.0) == TrialScheduler.CONTINUE  # between rungs nobody looks
    assert decision(scheduler, "better", 3, 31.0) == TrialScheduler.STOP


def test_failed_trials_and_results_without_a_curve_are_no_rungs() -> None:
    entries = [Entry(id="x", changes={}, state="failed"), Entry(id="y", changes={}, state="finished", result={"a": 1})]
    assert all(not recorded for _, recorded in halving(9, 1, 3.0, entries)._brackets[0]._rungs)


def test_a_trial_that_comes_again_stands_at_a_rung_once() -> None:
    """After each loss of its node Tune has another number for it; eleven times the best would end all others."""
    scheduler, nobody = halving(9, 1, 3.0, [entry("a"), entry("b")]), cast(Any, None)
    changes, told = {"optim.lr": 0.1}, {EPOCH: 1, OBJECTIVE: 30.0}
    for attempt in range(11):
        trial: Any = SimpleNamespace(trial_id=f"attempt-{attempt}", config={"changes": changes})
        scheduler.on_trial_add(nobody, trial)
        assert scheduler.on_trial_result(nobody, trial, told) == TrialScheduler.CONTINUE
    assert scheduler._brackets[0]._rungs[-1] == (1.0, {"a": 10.0, "b": 11.0, trial_id(changes): 30.0})
    assert decision(scheduler, "good", 1, 29.0) == TrialScheduler.CONTINUE


def test_halving_compares_trials_on_the_same_data(tmp_path: Path) -> None:
    plan = make_plan(request(sweep__method="asha", train__epochs=9))
    folder = open_sweep(Workspace.open(str(tmp_path)), plan.name, plan.definition())
    ledger = Ledger(folder)
    trials = {material: plan.trials_of(plan.listed[0], material)[0] for material in ("before", "after")}
    for value, changes in enumerate(trials.values(), start=1):
        ledger.finish(changes, {"objective": 9.0 * value, "curve": [float(value)] * 9}, 1.0)
    scheduler = plan.scheduler(
        SweepCall(
            request=request(), workspace=Workspace.open(str(tmp_path)), folder=folder, ledger=ledger, material="after"
        )
    )
    assert scheduler._brackets[0]._rungs[-1] == (1.0, {trial_id(trials["after"]): 2.0})
