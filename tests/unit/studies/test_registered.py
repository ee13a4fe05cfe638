"""Results kept in the repository belong to the registered studies: a preset that changes under a study loses them."""

import json
from pathlib import Path

import pytest

from vse.studies.planner import Planner
from vse.studies.registered import STUDIES
from vse.studies.tasks import read_summary
from vse.workspace.layout import Workspace

EVIDENCE = Path(__file__).resolve().parents[3] / "evidence"


# Where the photographs lay, relative to the folder the study ran in, is part of its tasks' names.
PHOTOGRAPHS = {
    "data.root": "data/flickr8k_800",
    "features.backbone.weights": "data/weights/mobilenet_v2_imagenet_fp16.pth",
    "features.backbone.mean": (0.5, 0.5, 0.5),
    "features.backbone.std": (0.5, 0.5, 0.5),
    "text.word_vectors": "vectors/captions.vec",
}


def test_the_arms_on_photographs_that_are_reported_are_done(workspace: Workspace) -> None:
    name = "families_photographs"
    table = json.loads((EVIDENCE / name / "results.json").read_text())["table"]["shared"]
    reported = tuple(row["arm"] for row in table)
    planner = Planner(STUDIES[name], workspace, PHOTOGRAPHS, 5, str(EVIDENCE / name / "tasks"), reported)
    chosen = planner.chosen()
    assert chosen is not None, [task.name for task in planner.searched() if read_summary(task) is None]
    tasks = planner.arm_tasks(chosen)
    assert set(reported) <= tasks.keys()
    assert not [task.name for arm in reported for task in tasks[arm] if read_summary(task) is None]


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
