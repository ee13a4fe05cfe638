"""What the driver of a sweep does once its trials have ended."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.sweeps.test_objective_plan import request
from vse.status.overview import read_status
from vse.sweeps import objective_sweep
from vse.sweeps.frame import Frame
from vse.sweeps.ledger import Entry, Ledger, open_sweep
from vse.sweeps.objective_plan import make_plan
from vse.sweeps.objective_results import gather
from vse.sweeps.proposals import InTurn
from vse.workspace.journal import read
from vse.workspace.layout import Workspace


def sweep_of(tmp_path: Path, **asked: Any) -> Any:
    wanted = request(workspace=str(tmp_path), **asked)
    plan, workspace = make_plan(wanted), Workspace.open(str(tmp_path))
    folder = open_sweep(workspace, plan.name, plan.definition())
    return objective_sweep._Sweep(Frame(wanted, plan, workspace, folder), plan)


def test_runs_that_a_scheduler_ended_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tune kills the processes of the last ones before these could say so."""
    sweep = sweep_of(tmp_path, space="eta_joint", sweep__method="asha", sweep__samples=2)
    workspace, told = sweep.workspace, {"metrics": {}, "objective": 1.0, "curve": [1.0], "stopped": True}
    for name in ("killed", "elsewhere"):
        workspace.journal(workspace.run(name)).start(name)

    def ends(ledger: Ledger, proposer: InTurn, function: Any, *, on_end: Any, **named: Any) -> bool:
        on_end(ledger.finish({"seed": 0, "material": "m"}, {"run": "killed", **told}, 1.0))
        assert read(tmp_path / "runs" / "killed" / "journal.jsonl").status == "running"  # it may still say so itself
        return True

    monkeypatch.setattr(objective_sweep, "run_proposed", ends)
    assert sweep.run_trials(InTurn([]), 1)
    statuses = [read(tmp_path / "runs" / name / "journal.jsonl").status for name in ("killed", "elsewhere")]
    assert statuses == ["killed", "running"]


def test_a_finished_sweep_runs_again_once_a_trial_is_to_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = sweep_of(tmp_path)
    path = sweep.frame.folder.local("journal.jsonl")
    sweep.frame.tell_parent("objective sweep", "rule")
    sweep.frame.journal().end()
    sweep.frame.tell_parent("objective sweep", "rule")
    assert read(path).status == "finished"
    seen = list[Any]()

    def runs(*_: Any, **__: Any) -> bool:
        (line,) = read_status(sweep.workspace).lines
        seen.append((read(path).status, line.state))
        return True

    monkeypatch.setattr(objective_sweep, "run_proposed", runs)
    assert sweep.run_trials(InTurn([]), 1)
    assert seen == [("running", "running")]


def test_the_parent_run_says_what_was_asked_last(tmp_path: Path) -> None:
    """MLflow keeps the first value of a parameter: of a sweep that was extended it would show another method."""
    for asked in ({"sweep__method": "grid"}, {"sweep__method": "random", "sweep__seeds": "0,1"}):
        sweep = sweep_of(tmp_path, **asked)
        sweep.frame.tell_parent("objective sweep", "rule")
    story = read(sweep.frame.folder.local("journal.jsonl"))
    told = {key: story.tags[f"sweep.{key}"] for key in ("method", "seeds", "samples")}
    assert told == {"method": "random", "seeds": "[0, 1]", "samples": "20"}
    assert "train.epochs" in story.params
    assert not any(key.startswith("sweep.") for key in story.params)


def test_a_call_that_is_refused_before_the_sweep_was_told_leaves_no_end(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path)
    sweep.frame.close("failed")
    assert not sweep.frame.folder.local("journal.jsonl").exists()
    sweep.frame.tell_parent("objective sweep", "rule")
    sweep.frame.close("failed")
    assert read(sweep.frame.folder.local("journal.jsonl")).status == "failed"


def test_only_what_a_call_was_to_try_and_did_not_is_left(tmp_path: Path) -> None:
    begun = sweep_of(tmp_path)
    first, second = (begun.plan.trials_of(point, "m")[0] for point in begun.plan.listed[:2])
    begun.ledger.fail(first, "no luck")
    sweep = sweep_of(tmp_path, sweep__run="failed")
    sweep.material = "m"
    assert sweep.left() == 1
    sweep.ledger.fail(first, "no luck")
    assert sweep.left() == 0
    for run, left in (("all", 20), ("new", 18)):
        sweep = sweep_of(tmp_path, sweep__run=run)
        sweep.material = "m"
        assert sweep.left() == left
        sweep.ledger.finish(second, {"objective": 1.0}, 1.0)
        assert sweep.left() == left - 1
        second = begun.plan.trials_of(begun.plan.listed[2], "m")[0]
    search = {"space": "eta_joint", "sweep__method": "hyperopt"}
    assert [sweep_of(tmp_path, **search, sweep__run=run).plan.options.run for run in ("all", "failed")] == [
        "all",
        "failed",
    ]
    sweep = sweep_of(tmp_path, **search, sweep__run="failed")
    sweep.material = "m"
    assert sweep.left() == 0
    assert sweep_of(tmp_path, **search).left() == -1


def test_a_trial_is_told_to_a_store_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that cannot append takes the whole journal each time, while no other trial is served."""
    sweep, copied = sweep_of(tmp_path), list[bytes]()
    opened = sweep.frame.journal

    def journal(*below: str) -> Any:
        book = opened(*below)
        book._mirror = copied.append
        return book

    monkeypatch.setattr(sweep.frame, "journal", journal)
    found = {"run": "r", "metrics": {"val/rsum": 1.0}, "objective": 1.0, "curve": [float(k) for k in range(30)]}
    changes = {"seed": 0, "material": "m"}
    entry: Entry = sweep.ledger.finish(changes, found, 1.0)
    sweep.tell_child(entry)
    path = sweep.frame.folder.local("trials") / entry.id / "journal.jsonl"
    assert copied == [path.read_bytes()]
    story = read(path)
    assert (story.status, len([key for key, _ in story.metrics if key == "rsum_so_far"])) == ("finished", 30)


def test_a_sweep_without_a_best_point_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Trials of several seeds stand at asha's rungs by themselves: each point may have lost one."""
    sweep = sweep_of(tmp_path, sweep__method="asha", sweep__seeds="0,1")
    told = {"metrics": {"val/rsum": 1.0}, "objective": 1.0, "curve": [1.0], "epochs": 1, "run": "r"}
    for changes, early in zip(sweep.plan.trials_of(sweep.plan.listed[0], "m"), (False, True), strict=True):
        sweep.ledger.finish(changes, {**told, "stopped": early}, 1.0)
    results = gather(sweep.plan, sweep.frame.name, "univse_tiny", sweep.ledger, "m")
    report = sweep.report(results, "digest")
    assert "best" not in report.headline
    assert "none is the best; those that asha ended early go on by another sweep.method" in caplog.text
