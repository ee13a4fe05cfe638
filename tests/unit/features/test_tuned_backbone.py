"""Tuned weights of every kind of network: trained, saved, and read by the frozen backbone that stands for them."""

import itertools
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from tests.levels import slow_but
from vse import registry
from vse.config import override
from vse.features.backbones import SmallBackbone, TimmBackbone, TorchvisionBackbone
from vse.features.tuned_backbone import FILE, TunedBackbone, tuned
from vse.training.tuning import Tuner

CPU = torch.device("cpu")
NETWORKS: dict[str, Any] = {
    "small": SmallBackbone.Config(weights="random"),
    "torchvision": TorchvisionBackbone.Config(arch="resnet18", weights="random", size=64),
    "timm convolutions": TimmBackbone.Config(arch="tf_efficientnet_lite0", weights="random", size=64),
    "timm tokens": TimmBackbone.Config(arch="vit_tiny_patch16_224", weights="random", size=32),
}


@pytest.mark.seconds
@pytest.mark.parametrize(
    ("output", "name"),
    slow_but(
        itertools.product(("map", "pooled"), NETWORKS),
        *(("map", "small"), ("pooled", "torchvision"), ("map", "timm tokens")),
    ),
)
def test_tuned_features_are_those_of_the_trained_network(name, output, tmp_path):
    if name.startswith("timm"):
        pytest.importorskip("timm")
    config = NETWORKS[name]
    backbone = registry.build("backbone", config)
    side = backbone.transform.size
    pixels = torch.randint(0, 256, (3, 1, side, side, 3), dtype=torch.uint8)
    tuner = Tuner(backbone.load((output,)).prepare(CPU), output, chunk=2)
    before = tuner.features(pixels)
    optimizer = torch.optim.SGD(tuner.parameters, lr=0.01)
    shown = tuner.shown({"pixels": pixels, "pixel_row": torch.tensor([0, 2, 1, 1])})
    shown[output].square().mean().backward()
    tuner.backward()
    assert sum(p.grad is not None and bool(p.grad.any()) for p in tuner.parameters) > 3
    optimizer.step()
    after = tuner.features(pixels)
    assert not torch.allclose(before, after)

    file = str(tmp_path / FILE)
    save_file({key: value.contiguous() for key, value in tuner.network.state_dict().items()}, file)
    again = registry.build("backbone", tuned(config, file))
    torch.testing.assert_close(again.load((output,)).prepare(CPU)(pixels)[output], after)
    assert again.identity()["weights"] != backbone.identity()["weights"]
    assert again.shapes()[output] == after.shape[1:]


def test_a_weights_file_of_the_user_is_not_needed_again(tmp_path):
    """The tuned backbone names published weights, from which a transform may follow, but no file."""
    own = tmp_path / "own.safetensors"
    network: Any = SmallBackbone(SmallBackbone.Config(weights="random")).load(("pooled",))
    save_file({f"x.{k}": v.contiguous() for k, v in network.trunk.layers.state_dict().items()}, str(own))
    file = str(tmp_path / FILE)
    save_file({key: value.contiguous() for key, value in network.state_dict().items()}, file)
    config = tuned(override(SmallBackbone.Config(), {"weights": str(own)}), file)
    own.unlink()
    assert registry.build("backbone", config).load(("pooled",))
    assert config.of == SmallBackbone.Config(weights="random")
    assert tuned(SmallBackbone.Config(), file).of == SmallBackbone.Config()
    assert tuned(config, "other") == TunedBackbone.Config(weights="other", of=config.of)
