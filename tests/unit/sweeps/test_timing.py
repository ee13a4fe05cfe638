"""What a run will take, from some of its steps."""

import time
from pathlib import Path
from typing import Any

import pytest

from vse import presets
from vse.config import override
from vse.stages import pipeline
from vse.sweeps import timing
from vse.sweeps.timing import Timing, time_training
from vse.training.config import RunConfig, TrainConfig
from vse.training.inputs import Material
from vse.training.step import Stepper
from vse.workspace.layout import Workspace

SIZES = {"data.num_train": 40, "data.num_val": 10, "data.num_test": 4, "data.num_shifted": 0, "train.batch_size": 32}


def made(folder: Path, preset: str = "vsepp_tiny", **more: Any) -> tuple[RunConfig, Material]:
    config = override(presets.preset(preset), {**SIZES, **more})
    return config, pipeline.prepare(config, Workspace.open(str(folder)))


def test_parts_add_up_to_a_run() -> None:
    parts = Timing(set_up=2.0, step=0.5, steps=4, validation=3.0, checkpoint=0.25)
    assert parts.seconds(TrainConfig(epochs=5)) == 2.0 + 5 * (4 * 0.5 + 0.25) + 5 * 3.0
    assert parts.seconds(TrainConfig(epochs=5, evaluate_every=2)) == 2.0 + 5 * 2.25 + 3 * 3.0  # the last counts
    assert parts.seconds(TrainConfig(epochs=5, workers=2)) == 2.0 + 5 * (0.5 * 4 * 0.5 + 0.25) + 15.0


def test_a_step_is_timed_without_its_warm_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of 20 ms beyond their own time, the first three of half a second."""
    config, material = made(tmp_path)
    step, count = Stepper.step, [0]

    def slow(stepper: Stepper, *given: Any) -> Any:
        count[0] += 1
        time.sleep(0.5 if count[0] <= timing.WARM_UP else 0.02)
        return step(stepper, *given)

    monkeypatch.setattr(Stepper, "step", slow)
    found = time_training(config, material, seconds=0.4)
    assert found is not None
    captions = len(material.records.split("train").captions)
    assert found.steps == -(-captions // 32)
    assert 0.02 <= found.step < 0.15
    assert found.validation > 0
    assert found.checkpoint > 0


def test_what_is_larger_is_scaled_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, material = made(tmp_path)
    captions = len(material.records.split("train").captions)
    monkeypatch.setattr(timing, "TRAIN_IMAGES", 20)
    monkeypatch.setattr(timing, "validate", lambda family, val: time.sleep(0.01 * len(val)))
    monkeypatch.setattr(timing, "VAL_IMAGES", 5)
    found = time_training(config, material, seconds=0.05)
    assert found is not None
    assert found.steps == -(-captions // 32)
    assert found.validation == pytest.approx(0.01 * len(material.records.split("val").captions), rel=0.5)


def test_a_fit_in_closed_form_has_no_steps(tmp_path: Path) -> None:
    config, material = made(tmp_path, "cca_scenes")
    assert time_training(config, material) is None
