"""What a trial finds where another process has its run."""

from typing import Any

import pytest

from tests.unit.training.test_run import config
from vse.config import to_dict
from vse.sweeps.objective_trials import Setting, run_trial
from vse.training import run
from vse.training.code import this_code
from vse.training.run import Result, run_training
from vse.workspace import Workspace


def test_epochs_that_another_process_trains_meanwhile_are_in_the_curve(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waited(*arguments: Any, **named: Any) -> Result:
        run_training(*arguments)
        return run_training(*arguments, **named)

    monkeypatch.setattr(run, "run_training", waited)
    setting = Setting(workspace=workspace.root.uri, parent="", config=to_dict(config()), objective="rsum")
    found = run_trial({"seed": 1, "material": "m"}, setting)
    assert (found["trained"], found["trained_by"], len(found["curve"])) == (False, [this_code()], 3)
    assert found["curve"][-1] == found["objective"]
    assert workspace.run(found["run"]).child("evaluation").names() == (
        found["hits"].replace("npz", "json"),
        found["hits"],
    )
