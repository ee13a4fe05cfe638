"""What a study makes of trainings that diverge."""

import dataclasses
from pathlib import Path

import pytest

from tests.unit.test_evidence import STUDY, do, search
from vse import evidence
from vse.errors import Diverged
from vse.evidence import Planner
from vse.training.config import RunConfig
from vse.training.run import Result
from vse.workspace import Workspace


def test_a_candidate_that_diverges_is_not_chosen_and_an_arm_that_does_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(config: RunConfig, workspace: Workspace) -> Result:
        if config.optim.lr > 1:
            raise Diverged("epoch 1, step 2: sent is nan")
        return Result("a-run", workspace.run("a-run"), {"val/rsum": 30.0}, 2, 2, 1.0, trained=True, trained_by=[])

    monkeypatch.setattr(evidence, "run_training", train)
    candidates = ({"optim.lr": 1e9}, {"optim.lr": 2e-3})
    study = dataclasses.replace(STUDY, search={"vsepp": candidates})
    planner = Planner(study, Workspace.open(str(tmp_path)), {}, 1)
    assert do(planner, search(planner))[0]
    assert planner.chosen() == {"vsepp": {"changes": candidates[1], "val_rsum": [0.0, 30.0]}}
    arm = planner.arm_tasks({"vsepp": {"changes": candidates[0]}})["vsepp"]
    assert do(planner, arm) == (
        False,
        ["vsepp seed 0: failed: Diverged('epoch 1, step 2: sent is nan'), 0 to go"],
    )
