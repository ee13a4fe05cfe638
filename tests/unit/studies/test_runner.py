"""Tasks are run once each, in processes of their own, until the budget is spent; one that fails harms no other."""

import dataclasses
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest

from tests.jobs.processes import environment
from tests.unit.studies import killed_tasks
from tests.unit.studies.miniature import STUDY, do, search
from vse.config import override
from vse.presets import preset
from vse.studies import runner
from vse.studies.performing import perform
from vse.studies.planner import Planner
from vse.studies.runner import run_tasks
from vse.studies.tasks import Task, read_summary


def test_what_is_done_is_not_done_again(
    planner: Planner, done: dict[str, list[Task]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "perform", lambda task: pytest.fail("done again"))
    assert do(planner, planner.in_order(done)) == (True, [])
    assert do(planner, search(planner)) == (True, [])


def test_a_spent_budget_starts_nothing(planner: Planner) -> None:
    other = Planner(STUDY, planner.workspace, {"model.dim": 16}, 2)
    assert do(other, search(other), deadline=0.0) == (False, [])


def test_a_failing_task_leaves_the_others_alone(
    planner: Planner, done: dict[str, list[Task]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = [dataclasses.replace(done["vsepp"][0], label=label) for label in ("one", "two", "three")]
    finished: list[str] = []

    def some(task: Task) -> str:
        if task.label == "two":
            raise ValueError("broken")
        finished.append(task.label)
        return task.name

    monkeypatch.setattr(runner, "perform", some)
    complete, said = do(planner, tasks)
    assert not complete
    assert finished == ["one", "three"]
    assert [line for line in said if "failed" in line] == ["two seed 0: failed: ValueError('broken'), 1 to go"]


@pytest.mark.slow
def test_tasks_run_in_processes_of_their_own(tmp_path: Path) -> None:
    config = override(preset("vsepp_tiny"), {**STUDY.data, "train.epochs": 1})
    kept = str(tmp_path / "kept")
    tasks = [Task("real", override(config, {"seed": seed}), (), (), str(tmp_path), kept) for seed in (0, 1)]
    assert runner.ProcessPoolExecutor is ProcessPoolExecutor
    said: list[str] = []
    assert run_tasks(tasks, 2, float("inf"), said.append)
    assert len(said) == 2
    assert all(read_summary(task) is not None for task in tasks)
    names = {perform(task) for task in tasks}  # finished runs: measured again, trained no more
    assert {f"{name}.json" for name in names} == {path.name for path in Path(kept).iterdir()}


def test_a_process_that_is_killed_ends_its_own_task_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "perform", killed_tasks.perform)
    config = preset("vsepp_tiny")
    tasks = [
        Task("killed", override(config, {"seed": seed}), (), (), str(tmp_path), str(tmp_path / "kept"))
        for seed in range(3)
    ]
    said: list[str] = []
    assert not run_tasks(tasks, 1, float("inf"), said.append)
    assert [line.split(", ")[0].split("(")[0] for line in said] == [
        "killed seed 0: a process was killed; once more at the end",
        "killed seed 1: done",
        "killed seed 2: done",
        "killed seed 0: failed: BrokenProcessPool",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0-0", "0-1", "1-0", "2-0"]


INTERRUPTED = """
import sys
from tests.unit.studies import killed_tasks
from vse.config import override
from vse.cli.interrupts import heed
from vse.presets import preset
from vse.studies import runner
from vse.studies.tasks import Task

if __name__ == "__main__":
    heed("evidence")
    runner.perform, here = killed_tasks.endless, sys.argv[1]
    tasks = [Task("endless", override(preset("vsepp_tiny"), {"seed": k}), (), (), here, here) for k in range(3)]
    runner.run_tasks(tasks, 2, float("inf"), print)
"""


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
