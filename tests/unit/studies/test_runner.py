"""Trainings run once each, in worker processes, until the budget is spent; one that fails harms no other."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from tests.jobs.processes import environment
from tests.unit.studies import killed_tasks
from tests.unit.studies.miniature import STUDY, run_here
from vse.config import override
from vse.presets import preset
from vse.stages.processes import process_pool
from vse.storage.folder import Folder
from vse.studies import runner
from vse.studies.planner import Planner
from vse.studies.runner import Outcome, perform, run_trainings
from vse.studies.trainings import ARCHIVE, Training, TrainingArchive


@pytest.mark.slow
def test_what_is_done_is_not_done_again(
    planner: Planner, done: dict[str, list[Training]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "perform", lambda training, workspace: pytest.fail("done again"))
    assert run_here(planner, planner.in_order(done)) == (True, [])
    assert run_here(planner, planner.search()) == (True, [])


def test_a_spent_budget_starts_nothing(planner: Planner) -> None:
    other = Planner(STUDY, planner.archive, {"model.dim": 16}, 2)
    assert run_here(other, other.search(), deadline=0.0) == (False, [])


@pytest.mark.slow
def test_a_failing_training_leaves_the_others_alone(
    planner: Planner, done: dict[str, list[Training]], monkeypatch: pytest.MonkeyPatch
) -> None:
    trainings = [dataclasses.replace(done["vsepp"][0], label=label) for label in ("one", "two", "three")]
    finished: list[str] = []

    def some(training: Training, workspace: str) -> Outcome:
        if training.label == "two":
            raise ValueError("broken")
        finished.append(training.label)
        return {"label": training.label}, b""

    monkeypatch.setattr(runner, "perform", some)
    complete, said = run_here(planner, trainings)
    assert not complete
    assert finished == ["one", "three"]
    assert [line for line in said if "failed" in line] == ["two seed 0: failed: ValueError('broken'), 1 to go"]


@pytest.mark.slow
def test_trainings_run_in_worker_processes(tmp_path: Path) -> None:
    config = override(preset("vsepp_tiny"), {**STUDY.data, "train.epochs": 1})
    trainings = [Training("real", override(config, {"seed": seed})) for seed in (0, 1)]
    assert runner.process_pool is process_pool
    archive = TrainingArchive(Folder.open(tmp_path / "kept"))
    said: list[str] = []
    assert run(trainings, archive, tmp_path, said, processes=2)
    assert len(said) == 2
    for training in trainings:
        again, tables = perform(training, str(tmp_path))  # measures the finished run
        assert archive.summary(training) == {**again, "measured": training.measured}
        assert tables == b""


def run(trainings: list[Training], archive: TrainingArchive, workspace: Path, said: list[str], processes: int) -> bool:
    return run_trainings(
        trainings, archive, str(workspace), processes=processes, deadline=float("inf"), say=said.append
    )


@pytest.mark.slow
def test_a_killed_process_ends_its_own_training_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "perform", killed_tasks.perform)
    trainings = [Training("killed", override(preset("vsepp_tiny"), {"seed": seed})) for seed in range(3)]
    said: list[str] = []
    assert not run(trainings, TrainingArchive(Folder.open(tmp_path / "kept")), tmp_path, said, processes=1)
    assert [line.split(", ")[0].split("(")[0] for line in said] == [
        "killed seed 0: a process was killed; once more at the end",
        "killed seed 1: done",
        "killed seed 2: done",
        "killed seed 0: failed: BrokenProcessPool",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0-0", "0-1", "1-0", "2-0", "kept"]
    kept = zipfile.ZipFile(tmp_path / "kept" / ARCHIVE).namelist()
    assert kept == sorted(f"{training.name}.json" for training in trainings[1:])


INTERRUPTED = """
import sys
from tests.unit.studies import killed_tasks
from vse.config import override
from vse.cli.interrupts import heed
from vse.presets import preset
from vse.storage.folder import Folder
from vse.storage.folder import Folder
from vse.studies import runner
from vse.studies.trainings import Training, TrainingArchive

if __name__ == "__main__":
    heed("evidence")
    runner.perform, here = killed_tasks.endless, sys.argv[1]
    trainings = [Training("endless", override(preset("vsepp_tiny"), {"seed": k})) for k in range(3)]
    archive = TrainingArchive(Folder.open(here))
    runner.run_trainings(trainings, archive, here, processes=2, deadline=float("inf"), say=print)
"""


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_interrupt_reaches_what_runs(number: int, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(INTERRUPTED)
    process = subprocess.Popen(
        [sys.executable, str(tmp_path / "job.py"), str(tmp_path)], env=environment(), start_new_session=True
    )
    try:
        deadline = time.monotonic() + 100
        while len(list(tmp_path.glob("begun-*"))) < 2:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        (os.killpg if number == signal.SIGHUP else os.kill)(process.pid, number)  # a lost terminal tells all processes
        process.wait(30)
    finally:
        process.kill()
    assert process.returncode not in (0, None)
    assert sorted(path.name for path in tmp_path.glob("let-go-*")) == ["let-go-0", "let-go-1"]
    assert not (tmp_path / "begun-2").exists()
