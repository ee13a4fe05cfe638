"""Where a run is measured. There is no GPU here: what torch is asked to do with one is watched."""

import json
import logging
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

from vse import measure
from vse.config import override
from vse.embedder import Embedder
from vse.errors import InputError
from vse.measure import MeasureOptions, measure_run
from vse.presets import preset
from vse.storage import Folder
from vse.trained import Trained, device_of, load_run
from vse.training.run import run_training
from vse.workspace import Workspace

CHANGES = {"data.num_train": 40, "data.num_val": 4, "data.num_test": 6, "data.num_shifted": 0, "train.epochs": 1}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.open(str(tmp_path_factory.mktemp("device")))


@pytest.fixture(scope="module")
def run(place: Workspace) -> Folder:
    return run_training(override(preset("univse_tiny"), {**CHANGES, "model.dim": 32}), place).folder


@pytest.fixture
def moved(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A machine with a GPU, as far as torch says; where models were moved to, which stay on the CPU."""
    devices: list[str] = []

    def to(self: Trained, device: torch.device) -> Trained:
        devices.append(device.type)
        return self

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    monkeypatch.setattr(Trained, "to", to)
    return devices


def test_a_gpu_is_taken_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for there, expected in ((False, ("cpu", "cpu")), (True, ("cuda", "cpu"))):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=there: there)
        assert tuple(device_of(asked).type for asked in ("auto", "cpu")) == expected
    assert device_of("cuda").type == "cuda"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match=r"measure\.device=cuda: torch finds no GPU on "):
        device_of("cuda", "measure.device")


def test_moving_a_run_moves_its_parameters(run: Folder) -> None:
    loaded = load_run(run)
    assert loaded.to(torch.device("meta")) is loaded
    assert {parameter.device.type for parameter in loaded.family.parameters()} == {"meta"}


def test_a_run_is_measured_where_it_was_asked(
    place: Workspace, run: Folder, moved: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="vse.measure"):
        found = measure_run(run, place, MeasureOptions(attacks=(), device="auto"))
    assert moved == ["cuda"]
    assert [record.message for record in caplog.records if record.name == "vse.measure"] == ["measured on a GPU"]
    assert measure_run(run, place, MeasureOptions(attacks=(), device="cpu")) == found  # one name for both
    assert moved == ["cuda"]
    Embedder(load_run(run))
    assert moved == ["cuda", "cuda"]


class BroughtBack(TorchFunctionMode):
    """Tells of what a tensor on a GPU would refuse: becoming an array before `cpu`. Models do so where they have asked
    for the device."""

    def __init__(self) -> None:
        super().__init__()
        self.back: list[torch.Tensor] = []
        self.refused: list[str] = []

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if function is torch.Tensor.cpu:
            result = result.clone()
            self.back.append(result)
        elif function in (torch.Tensor.numpy, torch.Tensor.__array__) and not any(args[0] is b for b in self.back):
            where = Path(sys._getframe(1).f_code.co_filename)
            if where.parent.name != "models" and where.name != "batches.py":  # batches are made on the CPU
                self.refused.append(f"{where.name}: {function.__name__} of {tuple(args[0].shape)}")
        return result


@pytest.mark.slow
def test_nothing_becomes_an_array_before_it_is_back_on_the_cpu(place: Workspace, run: Folder, tmp_path: Path) -> None:
    mode, material = BroughtBack(), measure.pipeline.prepare(load_run(run).config, place, parsed=True)
    caption = material.records.split("test").captions[0]
    pairs = tmp_path / "pairs.json"
    pairs.write_text(json.dumps([{"filename": caption.image, "caption": caption.text, "negative_caption": "no dog"}]))
    everything = MeasureOptions(
        attacks=("shared",), contrast=("shared",), true_pairs=True, pairs=(str(pairs),), drop_components=0.5, folds=2
    )
    codes = run_training(override(preset("jwae_mse_scenes"), {**CHANGES, "model.dim": 32}), place).folder
    with mode:
        measure_run(run, place, everything)
        measure_run(codes, place, MeasureOptions(attacks=(), gaussian=True))
        vectors = Embedder(load_run(run)).sentences(["a red ball"])
    assert isinstance(vectors, np.ndarray)
    assert mode.back
    assert mode.refused == []
    with mode:
        torch.ones(2).numpy()
    assert mode.refused == ["test_measure_device.py: numpy of (2,)"]
