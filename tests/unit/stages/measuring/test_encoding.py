"""Codes that another process makes: those of this one, and only if the cluster has GPUs that this process lacks."""

from pathlib import Path

import pytest
import torch

from vse.cluster import runtime
from vse.config import override
from vse.evaluation.codes import Codes
from vse.evaluation.work import Arrays, Job
from vse.presets import preset
from vse.stages.measuring import encoding, stage
from vse.stages.measuring.options import MeasureOptions
from vse.stages.measuring.plan import MeasurePlan, plan_measure
from vse.stages.measuring.work import gpus_elsewhere
from vse.stages.train import run_training
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.seconds

CPU = torch.device("cpu")


@pytest.fixture
def run(workspace: Workspace) -> Folder:
    return run_training(override(preset("vsepp_tiny"), {"train.epochs": 1}), workspace).folder


def computing(encoded: list[str]) -> object:
    """Computes work here, from what a pickled request opens."""

    def computed(
        jobs: list[Job], device: torch.device, folder: None, title: str, *, any_device: bool, workspace: str
    ) -> list[Arrays]:
        assert any_device
        encoded.append(title)
        return [work.compute(number, CPU) for work, number in jobs]

    return computed


@pytest.mark.slow
def test_codes_of_another_process_are_those_of_this_one(
    run: Folder, workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = stage.measure([run], Folder.open(tmp_path / "here"), workspace).metrics
    encoded = list[str]()
    monkeypatch.setattr(encoding, "gpus_elsewhere", lambda device: True)
    monkeypatch.setattr(encoding, "computed", computing(encoded))
    plans = list[MeasurePlan]()
    original = stage.encoder_for
    monkeypatch.setattr(stage, "encoder_for", lambda plan: plans.append(plan) or original(plan))
    found = stage.measure([run], Folder.open(tmp_path / "there"), workspace, options=MeasureOptions(device="auto"))
    assert found.metrics == expected
    assert encoded == ["encode splits"]
    (plan,) = plans
    encode, part = original(plan), plan.parts[0].first(3)
    assert encode is not None
    for one, other in ((encode(part), plan.members.encode(part)),):
        assert isinstance(one, Codes)
        assert torch.equal(one.caption_to_image, other.caption_to_image)
        for side in ("images", "captions"):
            items = getattr(other, side)
            assert getattr(one, side).keys() == items.keys()
            assert all(torch.equal(getattr(one, side)[name], value) for name, value in items.items())


@pytest.mark.parametrize("device", ["cpu", "auto"])
def test_nothing_is_encoded_elsewhere_without_a_cluster(device: str, run: Folder, workspace: Workspace) -> None:
    plan = plan_measure([run], workspace, ("retrieval",), MeasureOptions(device=device))
    assert encoding.encoder_for(plan) is None


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(200)
@pytest.mark.parametrize("gpus", [0, 1])
def test_a_cluster_says_whether_it_has_gpus(gpus: int) -> None:
    with runtime.running_ray(runtime.Config(address="local", cpus=1, gpus=gpus, store_mib=100)):
        assert gpus_elsewhere(CPU) == bool(gpus)
        assert not gpus_elsewhere(torch.device("cuda"))
