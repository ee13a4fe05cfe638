"""Where a run is measured. There is no GPU here: what torch is asked to do with one is watched."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.unit.asked import asked
from vse.config import override
from vse.errors import InputError
from vse.inference.embedder import Embedder
from vse.presets import preset
from vse.stages.measuring import work_ray
from vse.stages.measuring.stage import measure_run
from vse.stages.train import run_training
from vse.stages.trained import Trained, device_of, load_run
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.seconds

CHANGES = {"data.num_train": 40, "data.num_val": 4, "data.num_test": 6, "data.num_shifted": 0, "train.epochs": 1}


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


def test_a_task_without_its_gpu_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray gave it the GPU of a node whose driver has died."""
    devices: list[str] = []
    work: Any = SimpleNamespace(compute=lambda number, device: devices.append(device.type))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(work_ray, "set_up_logging", lambda: None)
    monkeypatch.setattr("platform.node", lambda: "node7")
    with pytest.raises(InputError, match=r"^measure\.device=cuda: torch finds no GPU on node7$"):
        work_ray._compute(work, 0, "cuda")
    work_ray._compute(work, 0, "cpu")
    assert devices == ["cpu"]


def test_moving_a_run_moves_its_parameters(run: Folder) -> None:
    loaded = load_run(run)
    assert loaded.to(torch.device("meta")) is loaded
    assert {parameter.device.type for parameter in loaded.family.parameters()} == {"meta"}


def test_a_run_is_measured_where_it_was_asked(
    place: Workspace, run: Folder, moved: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="vse.stages.measuring.stage"):
        found = measure_run(run, place, *asked("retrieval", device="auto"))
    assert moved == ["cuda"]
    assert [record.message for record in caplog.records if record.name == "vse.stages.measuring.stage"] == [
        "measured on a GPU"
    ]
    assert measure_run(run, place, *asked("retrieval", device="cpu")) == found  # one name for both
    assert moved == ["cuda"]
    Embedder(load_run(run))
    assert moved == ["cuda", "cuda"]
