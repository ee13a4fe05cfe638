"""A miniature study, and how its tasks are done at once in this process."""

import types
from concurrent.futures import Future
from typing import Any

import pytest

from vse.studies import runner
from vse.studies.claims import PLATEAU
from vse.studies.planner import Planner
from vse.studies.runner import run_tasks
from vse.studies.study import Study, StudyArm
from vse.studies.tasks import Task, read_summary

ALPHAS = (0.0, *PLATEAU, 1.0)
SPLITS = ("test", "shifted")
STUDY = Study(
    name="miniature",
    data={"data.num_train": 40, "data.num_val": 6, "data.num_test": 6, "data.num_shifted": 5, "train.epochs": 2},
    arms={
        "vsepp": StudyArm(preset="vsepp_tiny", family="vsepp"),
        "univse": StudyArm(preset="univse_tiny", family="univse", alphas=ALPHAS),
        "vsepp_longer": StudyArm(preset="vsepp_tiny", family="vsepp", longer="univse"),
        "univse_no_comp": StudyArm(
            preset="univse_tiny", family="univse", changes={"objective.eta_c": 0.0}, alphas=(0.75, 1.0)
        ),
    },
    search={"vsepp": ({"optim.lr": 1e-9}, {"optim.lr": 2e-3}), "univse": ({"optim.lr": 2e-3},)},
    splits=SPLITS,
    seeds=2,
    transfers={"drawing": {"data.drawing": "second"}, "wording": {"data.wording": "second"}},
)


class Here:
    """Stands for the pool of processes: does each task at once, in this one."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        pass

    def __enter__(self) -> "Here":
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def submit(self, function: Any, task: Task) -> Future[str]:
        future: Future[str] = Future()
        try:
            future.set_result(function(task))
        except Exception as error:
            future.set_exception(error)
        return future


def do(planner: Planner, tasks: list[Task], deadline: float = float("inf")) -> tuple[bool, list[str]]:
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "ProcessPoolExecutor", Here)
        return run_tasks(tasks, 1, deadline, said.append), said


def one_slice(planner: Planner, tasks: list[Task]) -> tuple[bool, list[str]]:
    """One task, then the budget is spent."""
    clock = iter([0.0, *[2.0] * 1000])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
        return do(planner, tasks, deadline=1.0)


def search(planner: Planner) -> list[Task]:
    return [task for each in planner.search_tasks().values() for trainings in each for task in trainings]


def chosen_of(planner: Planner) -> dict[str, Any]:
    chosen = planner.chosen()
    assert chosen is not None
    return chosen


def summary(planner: Planner, task: Task) -> dict[str, Any]:
    found = read_summary(task)
    assert found is not None
    return found


def places(planner: Planner) -> tuple[str, str]:
    return planner.workspace.root.uri, planner.workspace.root.child("evidence").uri
