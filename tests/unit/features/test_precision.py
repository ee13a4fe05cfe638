"""Features in bfloat16 and float16: near those in single precision, and never mixed with them."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.levels import slow_but
from tests.unit.features.test_timm_backbone import CPU, pictures, squares
from vse.config import override
from vse.data.records import Image, Records
from vse.errors import InputError
from vse.features.backbone import Backbone
from vse.features.backbones import SmallBackbone, TimmBackbone
from vse.presets.catalogue import preset
from vse.stages.extract import extract, features_fingerprint
from vse.storage.folder import Folder
from vse.training.config import FeatureConfig
from vse.training.effects import check_effects

# largest error as a share of the largest feature: both round to 8 or 11 bits in every layer
TOLERANCE = {"bfloat16": 0.03, "float16": 0.004}
BACKBONES: dict[str, Backbone] = {
    "small": SmallBackbone(SmallBackbone.Config()),
    "convnext": TimmBackbone(TimmBackbone.Config(arch="convnext_atto", weights="random", size=96)),
    "vit": TimmBackbone(TimmBackbone.Config(arch="vit_tiny_patch16_224", weights="random", size=96)),
}


@pytest.mark.seconds
@pytest.mark.parametrize("name", BACKBONES)
def test_single_precision_is_the_default_and_exact(name: str) -> None:
    backbone = BACKBONES[name]
    x = squares(backbone, pictures())
    network = backbone.load(["map", "pooled"]).prepare(CPU)
    pixels = x[:, 0].permute(0, 3, 1, 2).float() / 255
    with torch.inference_mode():
        outputs = network.trunk((pixels - network.mean) / network.std)
    for key, value in network(x).items():
        expected = outputs[key]
        assert torch.equal(value, expected.flatten(2).transpose(1, 2) if expected.dim() == 4 else expected)


@pytest.mark.seconds
@pytest.mark.parametrize("precision", TOLERANCE)
@pytest.mark.parametrize("name", slow_but(BACKBONES, "small"))
def test_lower_precisions_are_near(name: str, precision: str) -> None:
    backbone = BACKBONES[name]
    x = squares(backbone, pictures())
    exact = backbone.load(["map", "pooled"]).prepare(CPU)(x)
    network = backbone.load(["map", "pooled"]).prepare(CPU, precision)
    assert {each.dtype for each in network.trunk.parameters()} == {getattr(torch, precision)}
    for key, value in network(x).items():
        assert value.dtype == torch.float32
        error = float((value - exact[key]).abs().max() / exact[key].abs().max())
        assert 0 < error < TOLERANCE[precision], (key, error)


def test_the_precision_names_the_store_and_decides_its_numbers(tmp_path: Path) -> None:
    for k, image in enumerate(pictures()):
        image.save(tmp_path / f"{k}.png")
    records = Records("tiny", tuple(Image(f"id{k}", f"{k}.png", "train") for k in range(2)), ())
    config, stores, names = SmallBackbone.Config(), [], []
    for precision in ("float32", "bfloat16"):
        names.append(features_fingerprint(records, config, ["pooled"], str(tmp_path), precision))
        folder = Folder.open(tmp_path / precision)
        stores.append(extract(records, config, ["pooled"], folder, root=str(tmp_path), precision=precision))
        assert stores[-1].manifest["made_by"]["precision"] == precision
    assert names[0] == features_fingerprint(records, config, ["pooled"], str(tmp_path))
    assert names[0] != names[1]
    one, other = (store.array("pooled", ["id0", "id1"]) for store in stores)
    assert one.dtype == other.dtype == np.float16
    assert 0 < np.abs(one.astype(np.float32) - other).max() < 0.03 * np.abs(one).max()


def test_ready_made_features_have_no_precision_to_choose() -> None:
    config = override(preset("vsepp_small"), {"features.backbone": "arrays", "features.precision": "bfloat16"})
    with pytest.raises(
        InputError, match=r"^features\.precision=bfloat16: has no effect with features\.backbone=arrays"
    ):
        check_effects(config, ["features.precision"])
    assert FeatureConfig.__dataclass_fields__["precision"].default == "float32"
