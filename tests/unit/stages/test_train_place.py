"""Where a run trains: in this process, in a Ray task on a node with the GPU, or on workers of Ray Train."""

import pytest
import torch

from vse.cluster.runtime import Config as RayConfig
from vse.config import override
from vse.errors import InputError
from vse.presets import preset
from vse.stages.train import run_training, trains_here


@pytest.mark.parametrize(("train", "here"), [({}, True), ({"gpus_per_worker": 1.0}, False), ({"workers": 2}, False)])
def test_a_run_trains_where_its_gpus_are(train, here, workspace, monkeypatch):
    """One worker in this process if that has the GPUs, else in a Ray task of the job's Ray; more through Ray Train."""
    monkeypatch.setattr("vse.cluster.runtime.gpus", list)
    wanted = override(preset("vsepp_tiny"), {f"train.{key}": value for key, value in train.items()})
    assert trains_here(wanted.train) is here
    connected = []

    def running_ray(ray):
        connected.append(ray)
        raise RuntimeError("enough")

    monkeypatch.setattr("vse.stages.train.running_ray", running_ray)
    monkeypatch.setattr("vse.stages.train.train_worker", lambda *_: pytest.fail("trained here"))
    ray = RayConfig(address="10.0.0.4:6379")
    with pytest.raises(pytest.fail.Exception if here else RuntimeError, match="trained here" if here else "enough"):
        run_training(wanted, workspace, ray=ray)
    assert connected == ([] if here else [ray])
    monkeypatch.setattr("vse.cluster.runtime.gpus", lambda: ["A10G"])
    assert trains_here(wanted.train) is (wanted.train.workers == 1)


def test_a_node_whose_gpu_torch_does_not_find_is_one_line(workspace, monkeypatch):
    monkeypatch.setattr("vse.cluster.runtime.gpus", lambda: ["A10G"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match=r"train\.gpus_per_worker=1: torch finds no GPU on "):
        run_training(override(preset("vsepp_tiny"), {"train.gpus_per_worker": 1.0}), workspace)
