"""The miniature study, done once for all tests of this folder."""

import pytest

from tests.unit.studies.miniature import STUDY, do, one_slice, search
from vse.studies.planner import Planner
from vse.studies.tasks import Task
from vse.workspace.layout import Workspace


@pytest.fixture(scope="session")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Planner:
    workspace = Workspace.open(str(tmp_path_factory.mktemp("evidence")))
    return Planner(STUDY, workspace, {"model.dim": 32}, 2)


@pytest.fixture(scope="session")
def done(planner: Planner) -> dict[str, list[Task]]:
    """Everything, in as many slices as tasks: each slice starts one and stops."""
    assert planner.chosen() is None
    slices = 0
    while planner.chosen() is None:
        complete, said = one_slice(planner, search(planner))
        slices += 1
        assert len(said) == 1
        assert complete == (slices == 3)
    chosen = planner.chosen()
    assert chosen is not None
    tasks = planner.arm_tasks(chosen)
    assert set(tasks) == {"vsepp", "univse", "univse_no_comp"}  # one arm waits for the seconds of another
    assert not planner.answerable(tasks)
    while not one_slice(planner, planner.in_order(tasks))[0]:
        slices += 1
    slices += 1
    tasks = planner.arm_tasks(chosen)
    assert set(tasks) == set(STUDY.arms)
    assert do(planner, planner.in_order(tasks))[0]
    assert slices == 3 + 6
    return tasks
