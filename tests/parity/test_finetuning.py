"""A trained backbone: two workers learn what one does, and a lost run goes on within an epoch to the same bits."""

from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load

from tests.parity.elastic_worker import LOST
from tests.parity.test_elastic import history, newest, work

pytestmark = [pytest.mark.slow, pytest.mark.process]

TUNED: dict[str, Any] = {"train.finetune": True, "train.crop_area": 0.5, "train.epochs": 2}
VIT: dict[str, Any] = {
    "features.backbone": "timm",
    "features.backbone.arch": "vit_tiny_patch16_224",
    "features.backbone.weights": "random",
    "features.backbone.size": 32,
}
ADAPTED = {**VIT, **TUNED, "train.lora_rank": 2, "train.gradient_checkpointing": True}


def states(folder: Path, run: str) -> dict[str, Any]:
    """Weights of family and backbone in the last checkpoint."""
    checkpoint = folder / "space" / "runs" / run / "checkpoints" / "epoch-0002"
    files = [path for path in sorted(checkpoint.glob("*.safetensors")) if path.stem != "optimizer"]
    return {f"{file.name} {key}": value for file in files for key, value in load(file.read_bytes()).items()}


@pytest.mark.parametrize("changes", [TUNED, ADAPTED], ids=["all weights", "adapters"])
def test_a_lost_run_goes_on_and_two_workers_are_one(tmp_path: Path, changes: dict[str, Any]) -> None:
    """The second run disappears in the middle of an epoch; the third has two workers, which decode in chunks."""
    work(tmp_path, 1, run="whole", changes=changes)
    work(tmp_path, 1, LOST, run="lost", leave=(1, 2), every_step=True, changes=changes)
    assert newest(tmp_path, "lost") == "epoch-0001-000002"
    work(tmp_path, 1, run="lost", changes=changes)
    assert history(tmp_path, "lost") == history(tmp_path, "whole")
    whole, lost = states(tmp_path, "whole"), states(tmp_path, "lost")
    assert all(bool((lost[key] == value).all()) for key, value in whole.items())

    work(tmp_path, 2, run="two", changes=changes | {"train.chunk": 3, "train.threads": 2})
    for expected, found in zip(history(tmp_path, "whole"), history(tmp_path, "two"), strict=True):
        assert found == pytest.approx(expected, rel=1e-8, abs=1e-10)
    two = states(tmp_path, "two")
    for key, value in whole.items():
        assert (two[key] - value).abs().max() < 1e-8, key
