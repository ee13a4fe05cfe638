"""The miniature study, run once for all tests of this folder."""

import pytest

from tests.unit.studies.miniature import STUDY, one_slice, run_here
from vse.studies.planner import Planner
from vse.studies.trainings import Training, TrainingArchive
from vse.workspace.layout import Workspace


@pytest.fixture(scope="session")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Planner:
    workspace = Workspace.open(str(tmp_path_factory.mktemp("evidence")))
    return Planner(STUDY, TrainingArchive(workspace.root.child("evidence", STUDY.name)), {"model.dim": 32}, 2)


@pytest.fixture(scope="session")
def done(planner: Planner) -> dict[str, list[Training]]:
    """All trainings, in as many slices: each slice starts one and stops."""
    assert planner.chosen() is None
    slices = 0
    while planner.chosen() is None:
        complete, said = one_slice(planner, planner.search())
        slices += 1
        assert len(said) == 1
        assert complete == (slices == 3)
    chosen = planner.chosen()
    assert chosen is not None
    arms = planner.arms(chosen)
    assert set(arms) == {"vsepp", "univse", "univse_no_comp"}  # one arm waits for the seconds of another
    assert not planner.answerable(arms)
    while not one_slice(planner, planner.in_order(arms))[0]:
        slices += 1
    slices += 1
    arms = planner.arms(chosen)
    assert set(arms) == set(STUDY.arms)
    assert run_here(planner, planner.in_order(arms))[0]
    assert slices == 3 + 6
    return arms
