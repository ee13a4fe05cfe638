"""Trainings kept in the repository belong to the registered studies: a preset that changes under a study loses them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.levels import slow_but
from vse.storage.folder import Folder
from vse.studies.findings import findings
from vse.studies.planner import Planner
from vse.studies.registered import STUDIES
from vse.studies.trainings import ARCHIVE, Training, TrainingArchive

EVIDENCE = Path(__file__).resolve().parents[3] / "evidence"
KEPT = [name for name in STUDIES if (EVIDENCE / name / ARCHIVE).is_file()]


# Paths as the study was given them; they are part of the recorded configurations.
PHOTOGRAPHS = {
    "data.root": "data/flickr8k_800",
    "features.backbone.weights": "data/weights/mobilenet_v2_imagenet_fp16.pth",
    "features.backbone.mean": (0.5, 0.5, 0.5),
    "features.backbone.std": (0.5, 0.5, 0.5),
    "text.word_vectors": "vectors/captions.vec",
}


def planned(name: str) -> tuple[Planner, dict[str, list[Training]], dict[str, Any]]:
    """The planner of a kept study, its arms, and its results as committed."""
    study, results = STUDIES[name], json.loads((EVIDENCE / name / "results.json").read_text(encoding="utf-8"))
    reported = tuple(dict.fromkeys(row["arm"] for row in results["table"]["shared"]))
    archive = TrainingArchive(Folder.open(EVIDENCE / name))
    only = reported if study.photographs else ()  # of photographs, not all arms were trained
    planner = Planner(study, archive, PHOTOGRAPHS if study.photographs else {}, study.seeds, only)
    chosen = planner.chosen()
    assert chosen is not None, [each.name for each in planner.search() if archive.summary(each) is None]
    arms = planner.arms(chosen)
    return planner, {arm: arms[arm] for arm in only or study.arms}, results


def test_four_studies_keep_their_trainings() -> None:
    assert KEPT == ["families_scenes", "families_photographs", "semi_supervised_scenes", "sampling_scenes"]


@pytest.mark.seconds
@pytest.mark.parametrize("name", slow_but(KEPT, "families_scenes"))
def test_every_training_is_kept(name: str) -> None:
    planner, arms, _ = planned(name)
    assert all(len(trainings) == planner.study.seeds for trainings in arms.values())
    missing = [each.name for each in planner.in_order(arms) if planner.archive.summary(each) is None]
    assert not missing


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", KEPT)
def test_results_follow_from_the_trainings(name: str) -> None:
    planner, arms, results = planned(name)
    text = json.dumps(findings(planner, arms, results["command"]), indent=1, ensure_ascii=False) + "\n"
    assert text == (EVIDENCE / name / "results.json").read_text(encoding="utf-8")
