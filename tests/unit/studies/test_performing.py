"""The outcome of a training: a learned α, and divergence."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.studies.miniature import STUDY, run_here, summary, workspace_of
from vse.config import override
from vse.errors import Diverged
from vse.stages.train import Result
from vse.stages.trained import load_run
from vse.storage.folder import Folder
from vse.studies import runner
from vse.studies.findings import Results
from vse.studies.planner import Planner
from vse.studies.trainings import Training, TrainingArchive
from vse.training.config import RunConfig
from vse.workspace.layout import Workspace


@pytest.mark.slow
def test_the_final_learned_alpha_is_recorded(planner: Planner, done: dict[str, list[Training]]) -> None:
    changes: dict[str, Any] = {"model.learn_alpha": True, "train.epochs": 1}
    trainings = [
        Training("learned", override(done["univse"][0].config, {**changes, "seed": seed}), splits=("test",))
        for seed in (0, 1)
    ]
    assert run_here(planner, trainings)[0]
    ends = []
    for training in trainings:
        found = summary(planner, training)
        ended = load_run(workspace_of(planner).run(found["run"])).family.get_parameter("alpha_logit").sigmoid().item()
        assert found["learned_alpha"] == pytest.approx(ended)
        ends.append(found["learned_alpha"])
    mean, low, high = Results(planner, {**done, "learned": trainings}).learned_alphas()["learned"]
    assert mean == pytest.approx(np.mean(ends))
    assert low < mean < high
    assert Results(planner, done).learned_alphas() == {}


def test_a_diverged_candidate_is_not_chosen_and_a_diverged_arm_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(config: RunConfig, workspace: Workspace) -> Result:
        if config.optim.lr > 1:
            raise Diverged("epoch 1, step 2: sent is nan")
        return Result("a-run", workspace.run("a-run"), {"val/rsum": 30.0}, 2, 2, 1.0, trained=True, trained_by=[])

    monkeypatch.setattr(runner, "run_training", train)
    candidates = ({"optim.lr": 1e9}, {"optim.lr": 2e-3})
    study = dataclasses.replace(STUDY, search={"vsepp": candidates})
    planner = Planner(study, TrainingArchive(Folder.open(tmp_path / "evidence" / "miniature")), {}, 1)
    assert run_here(planner, planner.search())[0]
    assert planner.chosen() == {"vsepp": {"changes": candidates[1], "val_rsum": [0.0, 30.0]}}
    arm = planner.arms({"vsepp": {"changes": candidates[0]}})["vsepp"]
    assert run_here(planner, arm) == (
        False,
        ["vsepp seed 0: failed: Diverged('epoch 1, step 2: sent is nan'), 0 to go"],
    )
