"""Results kept in the repository belong to the registered studies: a preset that changes under a study loses them."""

from pathlib import Path

import pytest

from vse.studies.planner import Planner
from vse.studies.registered import STUDIES
from vse.studies.tasks import read_summary
from vse.workspace import Workspace

EVIDENCE = Path(__file__).resolve().parents[3] / "evidence"


@pytest.mark.parametrize(
    "name", [name for name in STUDIES if not STUDIES[name].photographs and (EVIDENCE / name / "tasks").is_dir()]
)
def test_every_task_of_the_study_is_done(name: str, workspace: Workspace) -> None:
    study = STUDIES[name]
    planner = Planner(study, workspace, {}, study.seeds, str(EVIDENCE / name / "tasks"))
    chosen = planner.chosen()
    assert chosen is not None, [task.name for task in planner.searched() if read_summary(task) is None]
    tasks = [task for arm in planner.arm_tasks(chosen).values() for task in arm]
    assert len(tasks) == len(study.arms) * study.seeds
    assert not [task.name for task in tasks if read_summary(task) is None]
