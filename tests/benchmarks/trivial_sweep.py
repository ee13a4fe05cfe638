"""A sweep whose trials train nothing. All else is as in a sweep of users: Tune, ledger, tracked runs, shipping, report.

A trial leaves what a training leaves for the driver: a tracked run with its curve, and a result.
"""

import dataclasses
import functools
import sys
from pathlib import Path
from typing import Any

from vse.cli import command
from vse.cli.command import Request
from vse.config import flatten
from vse.sweeps import engine, objective
from vse.sweeps.ledger import trial_id
from vse.sweeps.objective import ObjectivePlan, ObjectiveSweepOptions
from vse.sweeps.plan import JobOptions, Report, SweepCall, label_of
from vse.sweeps.trial import TrialSetting, trial_function
from vse.sweeps.trial_process import Function, say
from vse.workspace.provenance import run_tags

EPOCHS, WIDTH = 10, 100  # epochs of a trial; values of the space's first key
NUMBERS = [f"val/{way}/{name}" for way in ("i2t", "t2i") for name in ("r1", "r5", "r10", "medr", "meanr")]
SPACE = """
from ray import tune

SPACE = {{
    "optim.lr": tune.grid_search([round(1e-4 * (1 + k / {width}), 8) for k in range({width})]),
    "objective.margin": tune.grid_search([round(0.01 * (1 + k), 3) for k in range({height})]),
}}
"""


def write_space(file: Path, trials: int) -> None:
    """A grid of so many points, a multiple of `WIDTH` if there are more than that."""
    width = min(trials, WIDTH)
    assert trials % width == 0, f"{trials} trials are no multiple of {width}"
    file.write_text(SPACE.format(width=width, height=trials // width))


def trivial_trial(changes: dict[str, Any], setting: TrialSetting) -> dict[str, Any]:
    """Writes a tracked run with a curve, reports every epoch, and returns numbers that its settings decide."""
    config, workspace = setting.configured(changes), setting.at()
    run = f"trivial-{trial_id(changes)}"
    journal, curve, measured = workspace.journal(workspace.run(run)), list[float](), dict[str, float]()
    journal.start(run, parent=setting.parent, tags={"kind": "training", **run_tags()})
    journal.params(flatten(config))
    height = 300 - 1e4 * abs(changes["optim.lr"] - 1.5e-4) * 20 - 50 * abs(changes["objective.margin"] - 0.3)
    for epoch in range(1, EPOCHS + 1):
        curve.append(height * (1 - 0.5**epoch))
        measured = {**dict.fromkeys(NUMBERS, curve[-1] / 6), "val/rsum": curve[-1]}
        journal.metrics({**measured, "train/loss": 1 / epoch}, epoch)
        say(f"{label_of(changes)}: epoch {epoch}/{EPOCHS}")
    journal.describe("headline", f"**validation rsum {curve[-1]:.1f}**")
    journal.end()
    fixed = {"epochs": EPOCHS, "best": EPOCHS, "seconds": 0.0, "trained": False, "hits": ""}
    return {"run": run, "objective": curve[-1], "metrics": measured, "curve": curve, **fixed}


class TrivialPlan(ObjectivePlan):
    """The sweep with these trials. No run has a checkpoint that could be registered as a model."""

    def trial_function(self, call: SweepCall) -> Function:
        return trial_function(trivial_trial, call, {"": self.config})

    def _report(self, call: SweepCall, results: Any) -> Report:
        return dataclasses.replace(super()._report(call, results), best=[])


def make_plan(request: Request) -> TrivialPlan:
    """The plan of a request."""
    plan = objective.make_plan(request)
    return TrivialPlan(**{field.name: getattr(plan, field.name) for field in dataclasses.fields(plan)})


def main() -> None:
    """Serve a command line, as the jobs that sweep do."""
    run = functools.partial(engine.run_sweep_job, make_plan=make_plan)
    fixed = {"description": "", "default_preset": "vsepp_tiny", "options": JobOptions(sweep=ObjectiveSweepOptions())}
    sys.exit(command.main("trivial", run, **fixed, check=make_plan))
