"""What a run will take, from runs like it or from some of its own steps. Nothing is written where runs lie."""

import dataclasses
import time
from pathlib import Path
from typing import Any

import pytest

from tests.unit.sweeps.test_objective_plan import describe_plan, request
from vse import presets
from vse.cli.command import Request
from vse.config import override, to_dict
from vse.stages import pipeline
from vse.stages.describe import describe
from vse.stages.extract import extract_features
from vse.stages.train import run_training
from vse.storage.folder import Folder
from vse.sweeps import alpha, estimates
from vse.sweeps.alpha import AlphaSweepOptions
from vse.sweeps.budget import Resources
from vse.sweeps.engine import Sweep
from vse.sweeps.estimates import Timing, estimate, time_training
from vse.sweeps.job import describe_sweep
from vse.sweeps.ledger import Ledger, sweep_name
from vse.sweeps.objective import make_plan
from vse.sweeps.plan import JobOptions
from vse.training.config import RunConfig, TrainConfig
from vse.training.inputs import Material
from vse.training.step import Stepper
from vse.workspace.layout import Workspace

SIZES = {"data.num_train": 40, "data.num_val": 10, "data.num_test": 4, "data.num_shifted": 0}


def made(folder: Path, preset: str = "vsepp_tiny", **more: Any) -> tuple[RunConfig, Material]:
    config = override(presets.preset(preset), {**SIZES, "train.batch_size": 32, **more})
    return config, pipeline.prepare(config, Workspace.open(str(folder)))


def test_parts_add_up_to_a_run() -> None:
    parts = Timing(set_up=2.0, step=0.5, steps=4, validation=3.0, checkpoint=0.25)
    assert parts.seconds(TrainConfig(epochs=5)) == 2.0 + 5 * (4 * 0.5 + 0.25) + 5 * 3.0
    assert parts.seconds(TrainConfig(epochs=5, evaluate_every=2)) == 2.0 + 5 * 2.25 + 3 * 3.0  # the last counts
    assert parts.seconds(TrainConfig(epochs=5, workers=2)) == 2.0 + 5 * (0.5 * 4 * 0.5 + 0.25) + 15.0


@pytest.mark.seconds
def test_a_step_is_timed_without_its_warm_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of 20 ms beyond their own time, the first three of half a second."""
    config, material = made(tmp_path)
    step, count = Stepper.step, [0]

    def slow(stepper: Stepper, *given: Any) -> Any:
        count[0] += 1
        time.sleep(0.5 if count[0] <= estimates.WARM_UP else 0.02)
        return step(stepper, *given)

    monkeypatch.setattr(Stepper, "step", slow)
    found = time_training(config, material, Workspace.open(str(tmp_path)), seconds=0.4)
    assert found is not None
    captions = len(material.records.split("train").captions)
    assert found.steps == -(-captions // 32)
    assert 0.02 <= found.step < 0.15
    assert found.validation > 0
    assert found.checkpoint > 0


@pytest.mark.seconds
def test_what_is_larger_is_scaled_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, material = made(tmp_path)
    captions = len(material.records.split("train").captions)
    monkeypatch.setattr(estimates, "TRAIN_IMAGES", 20)
    monkeypatch.setattr(estimates, "validate", lambda family, val, tuning: time.sleep(0.01 * len(val)))
    monkeypatch.setattr(estimates, "VAL_IMAGES", 5)
    found = time_training(config, material, Workspace.open(str(tmp_path)), seconds=0.05)
    assert found is not None
    assert found.steps == -(-captions // 32)
    assert found.validation == pytest.approx(0.01 * len(material.records.split("val").captions), rel=0.5)


@pytest.mark.seconds
def test_a_fit_in_closed_form_has_no_steps(tmp_path: Path) -> None:
    config, material = made(tmp_path, "cca_scenes")
    assert time_training(config, material, Workspace.open(str(tmp_path))) is None


MEASURED = "; evaluation under attack on validation comes on top"


def small(workspace: Path, preset: str = "univse_tiny", **more: Any) -> Request:
    sizes: dict[str, Any] = {key.replace(".", "__"): value for key, value in SIZES.items()}
    return request(preset, str(workspace), **sizes, train__epochs=3, ray__cpus=4, **more)


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(p): (p.stat().st_size, p.stat().st_mtime_ns) for p in folder.rglob("*")}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vse.sweeps.estimates.SECONDS", 0.1)
    monkeypatch.setattr("vse.sweeps.estimates.time_training.__defaults__", (0.1,))


@pytest.mark.seconds
def test_what_is_missing_and_what_makes_it(tmp_path: Path) -> None:
    asked = small(tmp_path)
    workspace = Workspace.open(str(tmp_path))
    found = estimate(asked.config, (), workspace, asked)
    assert found.seconds is None
    assert "features are not there to time a step on; python jobs/extract_features.py --preset univse_tiny" in (
        found.source
    )
    command = f"data.num_val=10 train.epochs=3 outputs=map --workspace {tmp_path} makes that"
    assert command in found.source
    assert "sweep." not in found.source
    assert list(tmp_path.iterdir()) == []
    records = describe(asked.config, workspace)
    extract_features(asked.config, workspace, records, ("map",))
    found = estimate(asked.config, (), workspace, asked)
    assert "what it reads of the captions is not there to time a step on; python jobs/train.py" in found.source
    assert "train.epochs=1 --workspace" in found.source


@pytest.mark.seconds
@pytest.mark.usefixtures("quick")
def test_a_dry_run_times_steps_and_writes_nothing(tmp_path: Path) -> None:
    asked = small(tmp_path)
    pipeline.prepare(asked.config, Workspace.open(str(tmp_path)))
    before = listing(tmp_path)
    (line,) = [each for each in describe_plan(asked) if each.startswith("cost: ")]
    assert "s per trial (timed here: " in line
    assert "steps per epoch" in line
    assert listing(tmp_path) == before
    swept = dataclasses.replace(asked, job="sweep_alpha", options=JobOptions(sweep=AlphaSweepOptions()))
    lines = [each for each in describe_sweep(swept, alpha.make_plan) if each.startswith("cost")]
    assert lines[0].startswith("cost of univse: 3 trials of about ")
    assert lines[1].startswith("cost of vsepp: unknown, ")  # it reads other features, which are not there
    assert "h of trials" in lines[-1]
    assert listing(tmp_path) == before


@pytest.mark.seconds
@pytest.mark.usefixtures("quick")
def test_runs_like_it_go_before_steps(tmp_path: Path) -> None:
    asked, workspace = small(tmp_path, "vsepp_tiny", space="margin"), Workspace.open(str(tmp_path))
    result = run_training(asked.config, workspace)
    found = estimate(asked.config, (), workspace, asked)
    assert found.seconds == pytest.approx(result.seconds)
    assert found.source == "median epoch of 1 runs like these"


@pytest.mark.seconds
def test_enough_runs_like_it_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a thousand runs each would be two requests to a store."""
    asked, workspace = small(tmp_path, "vsepp_tiny", space="margin"), Workspace.open(str(tmp_path))
    like, other = to_dict(asked.config), to_dict(override(asked.config, {"optim.lr": 0.5}))
    runs = workspace.root.child("runs")
    for number in range(300):
        runs.child(f"run-{number:03d}").write_json("config.json", other if number % 2 else {**like, "seed": number})
        runs.child(f"run-{number:03d}").write_json("result.json", {"seconds": 3.0 * (number + 1), "epochs": 3})
    read, read_json = list[str](), Folder.read_json

    def counted(folder: Folder, name: str) -> Any:
        read.append(f"{folder.name}/{name}")
        return read_json(folder, name)

    monkeypatch.setattr(Folder, "read_json", counted)
    found = estimate(asked.config, (), workspace, asked)
    assert found.source == "median epoch of 32 runs like these"
    assert found.seconds == 33.0 * 3
    assert (sum(name.endswith("config.json") for name in read), len(read)) == (64, 64 + 32)


def test_runs_that_ended_before_their_last_epoch_tell_of_as_many_as_they_made(tmp_path: Path) -> None:
    """By patience, or because their family is fitted in closed form and makes one."""
    asked, workspace = small(tmp_path, "vsepp_tiny", space="margin"), Workspace.open(str(tmp_path))
    run = workspace.root.child("runs", "early")
    run.write_json("config.json", to_dict(override(asked.config, {"train.epochs": 30})))
    run.write_json("result.json", {"seconds": 10.0, "epochs": 1})
    assert estimate(asked.config, (), workspace, asked).seconds == 10.0
    run.write_json("result.json", {"seconds": 100.0, "epochs": 20})  # it may make all three of these
    assert estimate(asked.config, (), workspace, asked).seconds == pytest.approx(15.0)


def test_without_the_gpu_that_trials_take_nothing_is_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = small(tmp_path, train__gpus_per_worker=0.5)
    monkeypatch.setattr(estimates, "gpus", list)
    found = estimate(asked.config, (), Workspace.open(str(tmp_path)), asked)
    assert (found.seconds, "no GPU here" in found.source) == (None, True)


@pytest.mark.parametrize(("objective", "beside"), [("rsum", ""), ("pairs", MEASURED), ("both", MEASURED)])
def test_an_estimate_says_what_it_leaves_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, objective: str, beside: str
) -> None:
    """Steps and other runs tell of training alone; trials that have finished tell of all that they do."""
    asked = small(tmp_path, sweep__objective=objective)
    runs = Workspace.open(str(tmp_path)).root.child("runs", "like")
    runs.write_json("config.json", to_dict(asked.config))
    runs.write_json("result.json", {"seconds": 12.0, "epochs": 3})
    (line,) = [each for each in describe_plan(asked) if each.startswith("cost: ")]
    assert line.startswith(f"cost: about 12 s per trial (median epoch of 1 runs like these{beside}), ")
    caplog.set_level("INFO")
    workspace, plan = Workspace.open(str(tmp_path)), make_plan(asked)
    assert Sweep(asked, plan, workspace, workspace.sweep("eta")).expected_seconds("") == 12.0
    assert f"(median epoch of 1 runs like these{beside}); none starts that would pass the cap" in caplog.text
    told = cost_after_a_trial(tmp_path, trained_by=1, sweep__objective=objective)
    assert "(median of this sweep's finished trials), " in told


def cost_after_a_trial(place: Path, *, trained_by: int, **more: Any) -> str:
    """What a dry run says of costs where a trial of so many workers took 0.48 s."""
    asked = small(place, **more)
    plan = make_plan(asked)
    ledger = Ledger(Workspace.open(str(place)).sweep(sweep_name(plan.name, plan.definition())))
    changes, *_ = plan.trials_of(plan.listed[0], "01234567")
    ledger.finish(changes, {}, 0.48, Resources(cpus=trained_by, workers=trained_by))
    (line,) = [each for each in describe_plan(asked) if each.startswith("cost: ")]
    return line


@pytest.mark.seconds
def test_only_trials_of_as_many_workers_say_what_the_next_ones_take(tmp_path: Path) -> None:
    """The number of workers changes no result, so it may change within a sweep; what a trial takes changes with it."""
    told = "cost: about 0.48 s per trial (median of this sweep's finished trials), "
    unknown = "cost: unknown, no run like these is in the workspace"
    assert cost_after_a_trial(tmp_path / "a", trained_by=1).startswith(told)
    assert cost_after_a_trial(tmp_path / "b", trained_by=1, train__workers=2).startswith(unknown)
    assert cost_after_a_trial(tmp_path / "c", trained_by=2, train__workers=2).startswith(told)
    assert cost_after_a_trial(tmp_path / "d", trained_by=2).startswith(unknown)
