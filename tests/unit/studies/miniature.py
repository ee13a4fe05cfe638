"""A miniature study, and a way to run its trainings in this process."""

import types
from concurrent.futures import Future
from typing import Any

import pytest

from vse.studies import runner
from vse.studies.planner import Planner
from vse.studies.runner import run_trainings
from vse.studies.study import Study, StudyArm
from vse.studies.trainings import Training
from vse.studies.univse_claims import PLATEAU, UNIVSE_CLAIMS
from vse.workspace.layout import Workspace

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
    claims=UNIVSE_CLAIMS,
    transfers={"drawing": {"data.drawing": "second"}, "wording": {"data.wording": "second"}},
)


class Here:
    """Stands for the pool of processes: runs each training at once, in this one."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        pass

    def __enter__(self) -> "Here":
        return self

    def __exit__(self, *error: object) -> None:
        return None

    def submit(self, function: Any, training: Training) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(training))
        except Exception as error:
            future.set_exception(error)
        return future


def workspace_of(planner: Planner) -> Workspace:
    """The workspace in whose folder `evidence/miniature` the archive is."""
    return Workspace.open(str(planner.archive.folder.local().parents[1]))


def run_here(planner: Planner, trainings: list[Training], deadline: float = float("inf")) -> tuple[bool, list[str]]:
    said: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "process_pool", Here)
        done = run_trainings(
            trainings,
            planner.archive,
            workspace_of(planner).root.uri,
            processes=1,
            deadline=deadline,
            say=said.append,
        )
    return done, said


def one_slice(planner: Planner, trainings: list[Training]) -> tuple[bool, list[str]]:
    """One training, then the budget is spent."""
    clock = iter([0.0, *[2.0] * 1000])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "time", types.SimpleNamespace(monotonic=lambda: next(clock)))
        return run_here(planner, trainings, deadline=1.0)


def chosen_of(planner: Planner) -> dict[str, Any]:
    chosen = planner.chosen()
    assert chosen is not None
    return chosen


def summary(planner: Planner, training: Training) -> dict[str, Any]:
    found = planner.archive.summary(training)
    assert found is not None
    return found
