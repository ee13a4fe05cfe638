"""timm's networks as backbones against timm's own forward pass and transform, with random and real weights."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from timm.data.config import resolve_model_data_config
from timm.data.transforms_factory import create_transform
from timm.layers import pos_embed

from tests.levels import slow_but
from tests.shared import SHARED
from vse.errors import InputError
from vse.features.backbone import Backbone
from vse.features.timm_backbone import TimmBackbone

CPU = torch.device("cpu")
NETWORKS = {
    "vit_tiny_patch16_224": (196, 192),
    "swin": (49, 192),
    "convnext_atto": (49, 320),
    "tf_efficientnet_lite0": (49, 1280),
    "mobilenetv4_conv_small": (49, 960),  # its vector is longer than a cell of its map
}


def build(arch: str, weights: str = "random", **fields: Any) -> TimmBackbone:
    return TimmBackbone(TimmBackbone.Config(arch=arch, weights=weights, **fields))


def pictures(count: int = 2) -> list[Image.Image]:
    """Random pictures, wide and high."""
    generator = np.random.default_rng(3)
    shapes = [(300, 420, 3), (390, 260, 3)] * count
    return [Image.fromarray(generator.integers(0, 256, shape, dtype=np.uint8)) for shape in shapes[:count]]


def squares(backbone: Backbone, images: list[Image.Image]) -> torch.Tensor:
    return torch.from_numpy(np.stack([backbone.transform(image) for image in images]))


def tiny_swin(folder: Path) -> str:
    """The name of a folder with the configuration of a small Swin transformer, as the hub has it."""
    arguments = {"embed_dim": 24, "depths": [1, 1, 1, 1], "num_heads": [1, 2, 3, 6]}
    published = {"input_size": [3, 224, 224], "crop_pct": 0.9, "interpolation": "bicubic", "fixed_input_size": True}
    content = {"architecture": "swin_tiny_patch4_window7_224", "model_args": arguments, "pretrained_cfg": published}
    (folder / "config.json").write_text(json.dumps(content))
    return f"local-dir:{folder}"


@pytest.mark.seconds
@pytest.mark.parametrize("name", slow_but(NETWORKS, "vit_tiny_patch16_224", "convnext_atto"))
def test_outputs_and_transform_are_timms_own(name: str, tmp_path: Path) -> None:
    arch = tiny_swin(tmp_path) if name == "swin" else name
    backbone, images = build(arch), pictures()
    network = backbone.load(["map", "pooled"]).prepare(CPU)
    features = network(squares(backbone, images))
    own: Any = timm.create_model(arch, num_classes=0).eval()
    trunk: Any = network.trunk
    own.load_state_dict(trunk.model.state_dict())
    settings: dict[str, Any] = resolve_model_data_config(own)
    transform: Any = create_transform(**settings, is_training=False)
    with torch.no_grad():
        x = torch.stack([transform(image) for image in images])
        unpooled = own.forward_features(x)
        torch.testing.assert_close(features["pooled"], own(x), rtol=1e-3, atol=1e-4)
    assert {k: tuple(v.shape[1:]) for k, v in features.items()} == backbone.shapes()
    assert backbone.shapes()["map"] == NETWORKS[name]
    side = int(NETWORKS[name][0] ** 0.5)
    for row, column in [(0, 0), (0, side - 1), (side - 2, 1)]:
        cell = features["map"][:, row * side + column]
        if name.startswith("vit"):
            expected = unpooled[:, 1 + row * side + column]
        else:
            expected = unpooled[:, row, column] if name == "swin" else unpooled[:, :, row, column]
        torch.testing.assert_close(cell, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.seconds
def test_class_and_register_tokens_are_no_regions_and_the_size_can_change() -> None:
    backbone = build("vit_small_patch14_reg4_dinov2", size=56)
    assert backbone.shapes() == {"map": (16, 384), "pooled": (384,)}
    network = backbone.load(["map", "pooled"]).prepare(CPU)
    x = squares(backbone, pictures())
    own: Any = network.trunk.model
    tokens = own.forward_features((x[:, 0].permute(0, 3, 1, 2).float() / 255 - network.mean) / network.std)
    torch.testing.assert_close(network(x)["map"], tokens[:, 5:])
    torch.testing.assert_close(network(x)["pooled"], tokens[:, 0])


def test_a_network_whose_tokens_are_no_grid_has_no_map() -> None:
    assert build("pit_ti_224").shapes() == {"pooled": (256,)}
    with pytest.raises(InputError, match=r"^output 'map': this backbone has pooled$"):
        build("pit_ti_224").load(["map"])


@pytest.mark.seconds
def test_positions_are_resampled_as_timm_does_for_another_size(tmp_path: Path) -> None:
    state = timm.create_model("vit_tiny_patch16_224").state_dict()
    torch.save(state, tmp_path / "vit.pth")
    backbone = build("vit_tiny_patch16_224", weights=str(tmp_path / "vit.pth"), size=96)
    network = backbone.load(["map"])
    expected = pos_embed.resample_abs_pos_embed(state["pos_embed"], new_size=[6, 6], num_prefix_tokens=1)
    torch.testing.assert_close(network.trunk.get_parameter("model.pos_embed"), expected)
    torch.testing.assert_close(network.trunk.get_parameter("model.cls_token"), state["cls_token"])


@pytest.mark.seconds
def test_a_folder_in_timms_format_is_read_and_identity_follows_weights_and_transform(tmp_path: Path) -> None:
    own: Any = timm.create_model("convnext_atto", num_classes=7)
    timm.models.save_for_hf(own, str(tmp_path))
    arch = f"local-dir:{tmp_path}"
    backbone = build(arch, weights="default")
    network = backbone.load(["pooled"])
    torch.testing.assert_close(network.trunk.get_parameter("model.stem.0.weight"), own.state_dict()["stem.0.weight"])
    identities = [backbone.identity(), build(arch).identity(), build(arch, seed=1).identity()]
    identities += [build(arch, weights="default", **more).identity() for more in ({"size": 96}, {"transform": "scale"})]
    identities.append(build(arch, weights="default", mean=(0.5, 0.5, 0.5)).identity())
    assert all(a != b for k, a in enumerate(identities) for b in identities[:k])
    torch.save(own.state_dict(), tmp_path / "same.pth")
    same = build(arch, weights=str(tmp_path / "same.pth"))
    assert same.identity()["network"] == backbone.identity()["network"]
    torch.testing.assert_close(same.load(["pooled"]).state_dict(), network.state_dict())


@pytest.mark.seconds
def test_random_weights_follow_their_seed_and_leave_the_stream_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one, two, other = (build("convnext_atto", seed=s).load(["pooled"]).state_dict() for s in (1, 1, 2))
    assert torch.equal(torch.rand(3), expected)
    key = next(k for k in one if k.endswith("stem.0.weight"))
    assert torch.equal(one[key], two[key])
    assert not torch.equal(one[key], other[key])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"arch": "vot"}, r"^features\.backbone\.arch=vot: not in timm .*; timm\.list_models\(\) lists"),
        ({"arch": "local-dir:/nowhere"}, r"^features\.backbone\.arch=local-dir:/nowhere: there is no config\.json in"),
        ({"arch": "convnext_atto", "weights": "/no.pth"}, r"^features\.backbone\.weights=/no\.pth: no such file, nor"),
        ({"arch": "convnext_atto", "mean": (0.5,)}, "three numbers"),
        ({"arch": "convnext_atto", "resize": 50}, r"^features\.backbone\.resize=50: must be at least"),
        ({"arch": "convnext_atto", "transform": "fit"}, r"^features\.backbone\.transform=fit: expected one of crop"),
    ],
)
def test_wrong_requests_are_one_line(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build(**fields)


def test_a_size_that_does_not_fit_is_one_line() -> None:
    with pytest.raises(
        InputError, match=r"^features\.backbone\.arch=convnext_atto: does not read squares of 16 pixels"
    ):
        build("convnext_atto", size=16).shapes()


@pytest.mark.slow
def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    torch.save(timm.create_model("convnext_atto").state_dict(), tmp_path / "other.pth")
    for arch in ("vit_tiny_patch16_224", "tf_efficientnet_lite0", "resnet18"):
        with pytest.raises(InputError, match=r"other\.pth: not weights of this architecture"):
            build(arch, weights=str(tmp_path / "other.pth")).load(["pooled"])


def test_weights_that_cannot_be_downloaded_are_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    cases = {
        "convnext_atto": r"timm/convnext_atto\.d2_in1k/model\.safetensors or pytorch_model\.bin",
        "hf-hub:owner/name": r"owner/name/config\.json",
    }
    for arch, file in cases.items():
        with pytest.raises(InputError, match=rf"arch={arch}: {file} is not in the cache of Hugging Face") as refusal:
            build(arch, weights="default").identity()
        assert "\n" not in str(refusal.value)


def test_without_the_package_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "timm", None)
    with pytest.raises(
        InputError, match=r"^features\.backbone=timm: needs the package timm; .*pip install .*\[encoders\]"
    ):
        build("convnext_atto")


@pytest.mark.skipif(SHARED is None, reason="no shared folder with real weights")
def test_the_real_efficientnet_lite1_sees_dogs() -> None:
    assert SHARED is not None
    path = SHARED / "data" / "weights" / "efficientnet_lite1_imagenet_fp16.pth"
    backbone = build("tf_efficientnet_lite1", weights=str(path))
    assert (backbone.transform.size, backbone.normalisation.mean) == (240, (0.5, 0.5, 0.5))
    network = backbone.load(["map", "pooled"]).prepare(CPU)
    own: Any = timm.create_model("tf_efficientnet_lite1").eval()
    own.load_state_dict(torch.load(path, weights_only=True))
    settings: dict[str, Any] = resolve_model_data_config(own)
    transform: Any = create_transform(**settings, is_training=False)
    folder = SHARED / "data" / "flickr8k_800"
    items = json.loads((folder / "dataset_flickr8k_800.json").read_text())["images"]
    dogs = [item["filename"] for item in items if all(" dog " in each["raw"] for each in item["sentences"])][:8]
    images = [Image.open(next(folder.rglob(name))).convert("RGB") for name in dogs]
    features = network(squares(backbone, images))
    with torch.no_grad():
        logits = own(torch.stack([transform(image) for image in images]))
        torch.testing.assert_close(own.classifier(features["pooled"]), logits, rtol=1e-3, atol=1e-3)
    assert features["map"].shape == (8, 64, 1280)
    torch.testing.assert_close(features["map"].mean(1), features["pooled"], rtol=1e-4, atol=1e-4)
    classes = logits.argmax(1)
    assert ((classes >= 151) & (classes <= 268)).sum() >= 6  # ImageNet's breeds: wrong weights give one image in nine
