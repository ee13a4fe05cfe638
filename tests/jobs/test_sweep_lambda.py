"""jobs/sweep_lambda.py: jWAE's weights for both ways of matching."""

from pathlib import Path

import pytest

from tests.jobs.sweeping import SMALL, outcome, run, summary_of

SPACE = """
from ray import tune
SPACE = {"weight": tune.grid_search([{f"objective.lambda{k}": tune.grid_search([0.05])} for k in (1, 4)])}
"""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("preset", ["jwae_mse_scenes", "jwae_mh_scenes"])
def test_one_weight_at_a_time(tmp_path: Path, preset: str) -> None:
    file = tmp_path / "few.py"
    file.write_text(SPACE)
    asked = ["--preset", preset, *SMALL, "train.epochs=1", f"sweep.space={file}", "sweep.run=new"]
    summary = summary_of(run("sweep_lambda", tmp_path / "workspace", *asked))
    points = outcome(summary)["points"]
    assert set(points) == {"lambda1=0.05", "lambda4=0.05"}
    assert points["lambda1=0.05"]["runs"]["0"] != points["lambda4=0.05"]["runs"]["0"]
