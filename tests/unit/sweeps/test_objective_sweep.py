"""What the engine does around a sweep of trainings, and once its trials have ended."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.sweeps.test_objective_plan import request
from vse.status.overview import read_status
from vse.sweeps import engine
from vse.sweeps.engine import Sweep
from vse.sweeps.ledger import Entry, Ledger, open_sweep
from vse.sweeps.objective import make_plan
from vse.sweeps.plan import SweepCall
from vse.sweeps.proposals import TrialList
from vse.workspace.journal import read
from vse.workspace.layout import Workspace


def sweep_of(tmp_path: Path, **asked: Any) -> Any:
    wanted = request(workspace=str(tmp_path), **asked)
    plan, workspace = make_plan(wanted), Workspace.open(str(tmp_path))
    sweep = Sweep(wanted, plan, workspace, open_sweep(workspace, plan.name, plan.definition()))
    sweep.connect = lambda: None
    return sweep


def call_of(sweep: Sweep) -> SweepCall:
    return SweepCall(
        request=sweep.request,
        workspace=sweep.workspace,
        folder=sweep.folder,
        ledger=sweep.ledger,
        material="m",
    )


def test_runs_that_a_scheduler_ended_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tune kills the processes of the last ones before these could say so."""
    sweep = sweep_of(tmp_path, space="eta_joint", sweep__method="asha", sweep__samples=2)
    workspace, told = sweep.workspace, {"metrics": {}, "objective": 1.0, "curve": [1.0], "stopped": True}
    for name in ("killed", "elsewhere"):
        workspace.journal(workspace.run(name)).start(name)

    def ends(ledger: Ledger, proposer: TrialList, function: Any, *, on_end: Any, **named: Any) -> bool:
        on_end(ledger.finish({"seed": 0, "material": "m"}, {"run": "killed", **told}, 1.0))
        assert read(tmp_path / "runs" / "killed" / "journal.jsonl").status == "running"  # it may still say so itself
        return True

    monkeypatch.setattr(engine, "run_proposed", ends)
    assert sweep.propose(TrialList([]), 1, call_of(sweep))
    statuses = [read(tmp_path / "runs" / name / "journal.jsonl").status for name in ("killed", "elsewhere")]
    assert statuses == ["killed", "running"]


def test_a_finished_sweep_runs_again_once_a_trial_is_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = sweep_of(tmp_path)
    path = sweep.folder.local("journal.jsonl")
    sweep.tracked.open_parent()
    sweep.tracked.journal().end()
    sweep.tracked.open_parent()
    assert read(path).status == "finished"
    seen = list[Any]()

    def runs(*_: Any, **__: Any) -> bool:
        (line,) = read_status(sweep.workspace).rows
        seen.append((read(path).status, line.state))
        return True

    monkeypatch.setattr(engine, "run_proposed", runs)
    assert sweep.propose(TrialList([]), 1, call_of(sweep))
    assert seen == [("running", "running")]


def test_the_parent_run_says_what_was_asked_last(tmp_path: Path) -> None:
    """MLflow keeps the first value of a parameter: of a sweep that was extended it would show another method."""
    for asked in ({"sweep__method": "grid"}, {"sweep__method": "random", "sweep__seeds": "0,1"}):
        sweep = sweep_of(tmp_path, **asked)
        sweep.tracked.open_parent()
    story = read(sweep.folder.local("journal.jsonl"))
    told = {key: story.tags[f"sweep.{key}"] for key in ("method", "seeds", "samples")}
    assert told == {"method": "random", "seeds": "[0, 1]", "samples": "20"}
    assert "train.epochs" in story.params
    assert not any(key.startswith("sweep.") for key in story.params)


@pytest.mark.seconds
def test_only_what_a_call_was_to_try_and_did_not_is_left(tmp_path: Path) -> None:
    begun = sweep_of(tmp_path)
    first, second, third = (begun.plan.trials_of(point, "m")[0] for point in begun.plan.listed[:3])
    begun.ledger.fail(first, "no luck")

    def left(sweep: Any, *ends: Any) -> int:
        before = {entry.id: entry.attempts for entry in sweep.ledger}
        for end in ends:
            end(sweep.ledger)
        return sweep.held_back("m", before)

    assert left(sweep_of(tmp_path, sweep__run="failed")) == 1
    assert left(sweep_of(tmp_path, sweep__run="failed"), lambda ledger: ledger.fail(first, "no luck")) == 0
    for run, whole, changes in (("all", 20, second), ("new", 18, third)):
        assert left(sweep_of(tmp_path, sweep__run=run)) == whole
        done = left(sweep_of(tmp_path, sweep__run=run), lambda ledger, it=changes: ledger.finish(it, {}, 1.0))
        assert done == whole - 1
    search = {"space": "eta_joint", "sweep__method": "hyperopt"}
    assert left(sweep_of(tmp_path, **search, sweep__run="failed")) == 0
    assert left(sweep_of(tmp_path, **search)) == -1


def test_a_trial_is_told_to_a_store_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that cannot append takes the whole journal each time, while no other trial is served."""
    sweep, copied = sweep_of(tmp_path), list[bytes]()
    opened = sweep.tracked.journal

    def journal(*below: str) -> Any:
        book = opened(*below)
        book._mirror = copied.append
        return book

    monkeypatch.setattr(sweep.tracked, "journal", journal)
    found = {"run": "r", "metrics": {"val/rsum": 1.0}, "objective": 1.0, "curve": [float(k) for k in range(30)]}
    changes = {"seed": 0, "material": "m"}
    entry: Entry = sweep.ledger.finish(changes, found, 1.0)
    sweep.tracked.record_trial(entry)
    path = sweep.folder.local("trials") / entry.id / "journal.jsonl"
    assert copied == [path.read_bytes()]
    story = read(path)
    assert (story.status, len([key for key, _ in story.metrics if key == "rsum_so_far"])) == ("finished", 30)


@pytest.mark.seconds
def test_a_sweep_without_a_best_point_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Trials of several seeds stand at asha's rungs by themselves: each point may have lost one."""
    sweep = sweep_of(tmp_path, sweep__method="asha", sweep__seeds="0,1")
    told = {"metrics": {"val/rsum": 1.0}, "objective": 1.0, "curve": [1.0], "epochs": 1, "run": "r"}
    for changes, early in zip(sweep.plan.trials_of(sweep.plan.listed[0], "m"), (False, True), strict=True):
        sweep.ledger.finish(changes, {**told, "stopped": early}, 1.0)
    report = sweep.plan.outcome(call_of(sweep)).report()
    assert "best" not in report.headline
    assert "so there is no best point; points that asha ended early continue with another sweep.method" in caplog.text
