"""What a task leaves: where its α ended, and what becomes of one that diverges."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.studies.miniature import STUDY, do, places, search
from vse.config import override
from vse.errors import Diverged
from vse.stages.train import Result
from vse.stages.trained import load_run
from vse.studies import performing
from vse.studies.findings import Results
from vse.studies.planner import Planner
from vse.studies.tasks import Task, read_summary
from vse.training.config import RunConfig
from vse.workspace.layout import Workspace


def test_where_a_learned_alpha_ended_is_kept_and_told(planner: Planner, done: dict[str, list[Task]]) -> None:
    changes: dict[str, Any] = {"model.learn_alpha": True, "train.epochs": 1}
    tasks = [
        Task("learned", override(done["univse"][0].config, {**changes, "seed": seed}), (), (), *places(planner))
        for seed in (0, 1)
    ]
    tasks = [dataclasses.replace(task, splits=("test",)) for task in tasks]
    assert do(planner, tasks)[0]
    ends = []
    for task in tasks:
        summary = read_summary(task)
        assert summary is not None
        ended = load_run(planner.workspace.run(summary["run"])).family.get_parameter("alpha_logit").sigmoid().item()
        assert summary["learned_alpha"] == pytest.approx(ended)
        ends.append(summary["learned_alpha"])
    mean, low, high = Results(planner, {**done, "learned": tasks}).learned_alphas()["learned"]
    assert mean == pytest.approx(np.mean(ends))
    assert low < mean < high
    assert Results(planner, done).learned_alphas() == {}


def test_a_candidate_that_diverges_is_not_chosen_and_an_arm_that_does_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(config: RunConfig, workspace: Workspace) -> Result:
        if config.optim.lr > 1:
            raise Diverged("epoch 1, step 2: sent is nan")
        return Result("a-run", workspace.run("a-run"), {"val/rsum": 30.0}, 2, 2, 1.0, trained=True, trained_by=[])

    monkeypatch.setattr(performing, "run_training", train)
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
