"""Gradient checkpointing: which modules are blocks, the same gradient to the last bit, and fewer kept activations."""

from typing import Any

import pytest
import timm
import torch
import torchvision
from torch import Tensor, nn

from tests.levels import slow, slow_but
from tests.tiny_towers import TOWER, transformers
from vse.features.gradient_checkpointing import blocks_of, checkpoint_blocks
from vse.features.torchvision_backbone import TorchvisionBackbone

SMALL_VIT: dict[str, Any] = {"img_size": 32, "patch_size": 8, "embed_dim": 24, "depth": 3, "num_heads": 2}


def of_timm(name: str, **settings: Any) -> nn.Module:
    return timm.create_model(name, num_classes=0, **settings)


def of_torchvision(name: str) -> nn.Module:
    return torchvision.models.get_model(name, weights=None)


@pytest.mark.parametrize(
    ("network", "number", "classes"),
    [
        (lambda: of_timm("vit_tiny_patch16_224", **SMALL_VIT), 3, {"Block"}),
        (lambda: of_timm("tf_efficientnet_lite1"), 21, {"DepthwiseSeparableConv", "InvertedResidual"}),
        (lambda: of_timm("convnext_atto"), 12, {"ConvNeXtBlock"}),
        (lambda: of_timm("swin_tiny_patch4_window7_224"), 12, {"SwinTransformerBlock"}),
        (lambda: of_torchvision("resnet50"), 16, {"Bottleneck"}),
        (lambda: of_torchvision("mobilenet_v2"), 17, {"InvertedResidual"}),
        (lambda: of_torchvision("efficientnet_b0"), 16, {"MBConv"}),
        (lambda: of_torchvision("densenet121"), 4, {"_DenseBlock"}),
        (lambda: of_torchvision("vgg11"), 0, set()),
    ],
)
def test_blocks_are_the_smallest_repeated_units(network: Any, number: int, classes: set[str]) -> None:
    with torch.device("meta"):
        blocks = list(blocks_of(network()))
    assert len(blocks) == number
    assert {type(block).__name__ for block in blocks} == classes


def traced(arch: str) -> nn.Module:
    """The trunk of the backbone, which torchvision traces."""
    config = TorchvisionBackbone.Config(arch=arch, weights="random", size=64, transform="scale")
    return TorchvisionBackbone(config).load(("map",)).trunk


@pytest.mark.seconds
@pytest.mark.parametrize(
    "arch", slow_but(["resnet18", "convnext_tiny", "efficientnet_b0", "densenet121", "vgg11"], "resnet18")
)
def test_a_traced_network_keeps_its_blocks(arch: str) -> None:
    def kinds(network: nn.Module) -> list[str]:
        return sorted(type(block).__name__ for block in blocks_of(network))

    with torch.device("meta"):
        whole = of_torchvision(arch)
    assert kinds(traced(arch)) == kinds(whole)


class Mapped(nn.Module):
    """The map of a trunk."""

    def __init__(self, trunk: nn.Module) -> None:
        super().__init__()
        self.trunk = trunk

    def forward(self, x: Tensor) -> Tensor:
        return self.trunk(x)["map"]


def transformer() -> nn.Module:
    model = transformers().ViTModel(transformers().ViTConfig(**TOWER))

    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Tensor) -> Tensor:
            return self.model(x).last_hidden_state.mean(1)

    return Pooled()


NETWORKS = [
    lambda: of_timm("vit_tiny_patch16_224", **SMALL_VIT, proj_drop_rate=0.3, drop_path_rate=0.3),
    lambda: of_timm("tf_efficientnet_lite0"),
    transformer,
    lambda: Mapped(traced("mobilenet_v2")),
]


def step(network: nn.Module, x: Tensor) -> tuple[dict[str, Tensor], int]:
    """Gradients by name, and the number of elements that are kept for the backward pass besides parameters."""
    kept: dict[int, int] = {}
    own = {value.data_ptr() for value in network.parameters()}

    def pack(value: Tensor) -> Tensor:
        if value.data_ptr() not in own:
            kept[value.data_ptr()] = value.numel()
        return value

    network.zero_grad()
    torch.manual_seed(5)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda value: value):
        loss = network(x).square().sum()
    number = sum(kept.values())
    loss.backward()
    return {name: value.grad.clone() for name, value in network.named_parameters() if value.grad is not None}, number


@pytest.mark.seconds
@pytest.mark.parametrize("make", [*NETWORKS[:1], *slow(NETWORKS[1:])])
@pytest.mark.parametrize("training", [False, True])
def test_the_gradient_is_the_same_and_less_is_kept(make: Any, training: bool) -> None:
    """In training mode dropout draws the same numbers again; batch norm is left in evaluation mode."""
    torch.manual_seed(0)
    network = make().train(training)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.eval()
    x = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    expected, kept = step(network, x)
    assert checkpoint_blocks(network) > 1
    found, kept_now = step(network, x)
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        assert torch.equal(value, found[name]), name
    assert kept_now < 0.55 * kept


def test_nothing_is_kept_or_computed_twice_without_a_gradient() -> None:
    network = of_timm("vit_tiny_patch16_224", **SMALL_VIT).eval()
    checkpoint_blocks(network)
    calls: list[str] = []
    for block in blocks_of(network):
        block.get_submodule("mlp").register_forward_pre_hook(lambda *_: calls.append("mlp"))
    x = torch.randn(1, 3, 32, 32)
    with torch.inference_mode():
        network(x)
    assert len(calls) == SMALL_VIT["depth"]
    network(x).sum().backward()
    assert len(calls) == 3 * SMALL_VIT["depth"]
