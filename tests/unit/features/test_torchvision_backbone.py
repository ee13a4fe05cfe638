"""Torchvision backbones against torchvision's own forward, their weights files, and what they refuse."""

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torchvision import models

from tests.levels import slow_but
from tests.shared import SHARED
from vse.errors import InputError
from vse.features.torchvision_backbone import TorchvisionBackbone

Config = TorchvisionBackbone.Config


def build(arch, weights="random", size=64, **fields):
    return TorchvisionBackbone(Config(arch=arch, weights=weights, size=size, **fields))


def squares(items, size, crops=1, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 256, (items, crops, size, size, 3), generator=generator, dtype=torch.uint8)


def reference(arch, seed=0) -> Any:
    torch.manual_seed(seed)
    return models.get_model(arch, weights=None).eval()


def normalised(backbone, x):
    mean, std = (torch.tensor(v).view(1, 3, 1, 1) for v in (backbone.normalisation.mean, backbone.normalisation.std))
    return (x[:, 0].permute(0, 3, 1, 2).float() / 255 - mean) / std


ARCHES = ("resnet18", "mobilenet_v2", "shufflenet_v2_x0_5", "densenet121", "mnasnet0_5")


@pytest.mark.seconds
@pytest.mark.parametrize("arch", slow_but(ARCHES, "resnet18", "mobilenet_v2"))
def test_pooled_feeds_the_networks_own_classifier(arch):
    backbone = build(arch)
    network = backbone.load(["map", "pooled"]).prepare(torch.device("cpu"))
    own, x = reference(arch), squares(3, 64)
    features = network(x)
    with torch.no_grad():
        expected = own(normalised(backbone, x))
        head = own.fc if hasattr(own, "fc") else own.classifier
        torch.testing.assert_close(head(features["pooled"]), expected, rtol=1e-4, atol=1e-4)
    assert {k: tuple(v.shape[1:]) for k, v in features.items()} == backbone.shapes()
    torch.testing.assert_close(features["map"].mean(1), features["pooled"])


@pytest.mark.seconds
def test_map_is_row_major_channels_last():
    backbone = build("resnet18", size=96)
    own, x = reference("resnet18"), squares(2, 96)
    found = []
    own.layer4.register_forward_hook(lambda module, inputs, output: found.append(output))
    with torch.no_grad():
        own(normalised(backbone, x))
    grid = found[0]
    features = backbone.load(["map"]).prepare(torch.device("cpu"))(x)["map"]
    for row, column in np.ndindex(3, 3):
        torch.testing.assert_close(features[:, row * 3 + column], grid[:, :, row, column], rtol=1e-4, atol=1e-5)


@pytest.mark.seconds
def test_hidden_layers_come_rectified():
    backbone = build("alexnet", size=96)
    assert backbone.shapes().keys() == {"map", "pooled", "fc1", "fc2"}
    own, x = reference("alexnet"), squares(2, 96)
    features = backbone.load(["fc1", "fc2"]).prepare(torch.device("cpu"))(x)
    with torch.no_grad():
        hidden = own.classifier[:3](own.avgpool(own.features(normalised(backbone, x))).flatten(1))
        torch.testing.assert_close(features["fc1"], hidden, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(features["fc2"], own.classifier[3:6](hidden), rtol=1e-4, atol=1e-5)


@pytest.mark.seconds
def test_shapes_of_the_published_settings_need_no_weights():
    assert build("resnet152", size=224).shapes() == {"map": (49, 2048), "pooled": (2048,)}
    vgg = build("vgg19", size=224).shapes()
    assert vgg == {"map": (49, 512), "pooled": (512,), "fc1": (4096,), "fc2": (4096,)}
    assert build("squeezenet1_1", size=224).shapes()["map"] == (169, 512)


def test_shapes_are_computed_once_for_each_configuration(monkeypatch):
    first = build("resnet18", size=64).shapes()
    other = build("resnet18", size=96).shapes()
    assert other != first
    monkeypatch.setattr(TorchvisionBackbone, "_trunk", None)  # no pass from here
    assert build("resnet18", size=64).shapes() == first
    build("resnet18", size=64).shapes().clear()
    assert build("resnet18", size=64).shapes() == first


@pytest.mark.seconds
def test_ten_crops_are_averaged_and_have_no_map():
    backbone = build("shufflenet_v2_x0_5", transform="ten_crop")
    x = squares(2, 64, crops=10)
    network = backbone.load(["pooled"]).prepare(torch.device("cpu"))
    each = torch.stack([network(x[:, k : k + 1])["pooled"] for k in range(10)])
    torch.testing.assert_close(network(x)["pooled"], each.mean(0))
    with pytest.raises(InputError, match=r"'map'.*mirrored"):
        backbone.load(["map"])
    with pytest.raises(InputError, match=r"'fc1'.*map, pooled"):
        backbone.load(["fc1"])


@pytest.mark.seconds
def test_random_weights_follow_their_seed_and_leave_the_stream_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one, two, other = (build("resnet18", seed=s).load(["pooled"]).state_dict() for s in (1, 1, 2))
    assert torch.equal(torch.rand(3), expected)
    key = next(k for k in one if k.endswith("conv1.weight"))
    assert torch.equal(one[key], two[key])
    assert not torch.equal(one[key], other[key])
    assert build("resnet18", seed=1).identity() != build("resnet18", seed=2).identity()


@pytest.mark.seconds
@pytest.mark.parametrize("suffix", ["pth", "safetensors"])
def test_a_local_half_precision_file_is_read(tmp_path, suffix):
    own = reference("shufflenet_v2_x0_5", seed=3)
    state = {k: v.half() if v.is_floating_point() else v for k, v in own.state_dict().items()}
    path = tmp_path / f"weights.{suffix}"
    save_file(state, path) if suffix == "safetensors" else torch.save(state, path)
    backbone = build("shufflenet_v2_x0_5", weights=str(path))
    own.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in state.items()})
    x = squares(2, 64)
    features = backbone.load(["pooled"]).prepare(torch.device("cpu"))(x)
    with torch.no_grad():
        torch.testing.assert_close(own.fc(features["pooled"]), own(normalised(backbone, x)), rtol=1e-4, atol=1e-4)
    before = backbone.identity()
    torch.save({**state, "fc.bias": state["fc.bias"] + 1}, tmp_path / "other.pth")
    assert build("shufflenet_v2_x0_5", weights=str(tmp_path / "other.pth")).identity() != before


@pytest.mark.seconds
def test_a_file_of_another_architecture_names_the_first_mismatching_key(tmp_path):
    torch.save(models.resnet18().state_dict(), tmp_path / "r18.pth")
    for arch, key in (
        ("resnet50", "layer1.0.conv1.weight has shape"),
        ("mobilenet_v2", "features.0.0.weight, .* are missing"),
    ):
        with pytest.raises(InputError, match=key) as refusal:
            build(arch, weights=str(tmp_path / "r18.pth")).load(["pooled"])
        assert "r18.pth" in str(refusal.value)
    torch.save(models.resnet34().state_dict(), tmp_path / "r34.pth")
    with pytest.raises(InputError, match=r"it has no layer1\.2\.conv1\.weight, .* and \d+ more$"):
        build("resnet18", weights=str(tmp_path / "r34.pth")).load(["pooled"])


class _Trap:
    fired = False

    def __reduce__(self):
        return (setattr, (_Trap, "fired", True))


@pytest.mark.seconds
@pytest.mark.parametrize("kind", slow_but(["pickle", "torch", "truncated", "tensor", "text"], "pickle", "torch"))
def test_a_file_that_is_not_plain_weights_is_refused_and_never_executed(tmp_path, kind):
    path = tmp_path / "weights.pth"
    if kind == "pickle":
        path.write_bytes(pickle.dumps(_Trap()))
    elif kind == "torch":
        torch.save({"conv": _Trap()}, path)
    elif kind == "truncated":
        torch.save(models.shufflenet_v2_x0_5().state_dict(), path)
        path.write_bytes(path.read_bytes()[:10_000])
    elif kind == "tensor":
        torch.save(torch.zeros(2), path)
    else:
        path.write_text("not weights")
    with pytest.raises(InputError, match=r"weights\.pth") as refusal:
        build("shufflenet_v2_x0_5", weights=str(path)).load(["pooled"])
    assert "\n" not in str(refusal.value)
    assert not _Trap.fired


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"arch": "resnet153"}, "resnet153"),
        ({"arch": "vit_b_16"}, "vit_b_16"),
        ({"weights": "/nowhere/x.pth"}, r"^features\.backbone\.weights=/nowhere/x\.pth: no such file"),
        ({"weights": "IMAGENET1K_V9"}, "IMAGENET1K_V1"),
        ({"mean": (0.5,)}, "three numbers"),
        ({"resize": 50}, r"^features\.backbone\.resize=50: must be at least features\.backbone\.size="),
    ],
)
def test_wrong_requests_are_one_line(fields, message):
    with pytest.raises(InputError, match=message):
        build(**{"arch": "resnet18", **fields})


def test_an_image_too_small_for_the_network_is_refused():
    with pytest.raises(InputError, match=r"^features\.backbone\.arch=.* raise features\.backbone\.size"):
        build("squeezenet1_1", size=32).shapes()


@pytest.mark.skipif(SHARED is None, reason="no shared folder with real weights")
def test_the_real_mobilenet_names_dogs():
    assert SHARED is not None
    from torchvision.models import MobileNet_V2_Weights

    path = SHARED / "data" / "weights" / "mobilenet_v2_imagenet_fp16.pth"
    backbone = build("mobilenet_v2", weights=str(path), size=224, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
    network = backbone.load(["map", "pooled"]).prepare(torch.device("cpu"))
    own: Any = models.mobilenet_v2()
    own.load_state_dict(torch.load(path, weights_only=True))
    own.eval()
    root = SHARED / "data" / "flickr8k_800"
    names = sorted(p for p in root.rglob("*.jpg"))[:8]
    x = torch.stack([torch.from_numpy(backbone.transform(Image.open(p).convert("RGB"))) for p in names])
    features = network(x)
    with torch.no_grad():
        expected = own(normalised(backbone, x))
        torch.testing.assert_close(own.classifier(features["pooled"]), expected, rtol=1e-3, atol=1e-3)
    assert features["map"].shape == (8, 49, 1280)
    confident = expected.softmax(1).max(1).values
    assert len(MobileNet_V2_Weights.DEFAULT.meta["categories"]) == expected.shape[1]
    assert confident.median() > 0.1  # wrong preprocessing or weights leave it near 1/1000
