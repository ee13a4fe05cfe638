"""Weights as training scripts leave them: a whole trunk is taken, what was changed is told; others are refused."""

import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor
from torchvision import models

from tests.levels import slow_but
from vse.errors import InputError
from vse.features.small_backbone import SHIPPED, SmallBackbone
from vse.features.torchvision_backbone import TorchvisionBackbone
from vse.storage.weights import load_weights, read_weights

State = dict[str, Tensor]
ARCH = "shufflenet_v2_x0_5"


@pytest.fixture(scope="module")
def state() -> State:
    torch.manual_seed(5)
    return dict(models.shufflenet_v2_x0_5(weights=None).state_dict())


def load(content: Any, folder: Path, arch: str = ARCH, outputs: tuple[str, ...] = ("pooled",)) -> torch.nn.Module:
    torch.save(content, folder / "w.pth")
    return TorchvisionBackbone(TorchvisionBackbone.Config(arch=arch, weights=str(folder / "w.pth"), size=64)).load(
        outputs
    )


def headless(state: Mapping[str, Tensor]) -> State:
    return {key: value for key, value in state.items() if not key.startswith("fc.")}


def prefixed(state: Mapping[str, Tensor], prefix: str) -> State:
    return {prefix + key: value for key, value in state.items()}


SHAPES: dict[str, tuple[Callable[[State], Any], str]] = {
    "DataParallel": (lambda s: prefixed(s, "module."), r"removed the prefix module\.$"),
    "under state_dict": (
        lambda s: {"epoch": 3, "arch": "x", "state_dict": s, "optimizer": {"state": {}}},
        "took what is under 'state_dict', without epoch, arch, optimizer$",
    ),
    "under model": (lambda s: {"model": s}, "took what is under 'model'$"),
    "under a name of its own": (lambda s: {"weights": s, "epoch": 1}, "took what is under 'weights', without epoch$"),
    "model and its average": (lambda s: {"model": s, "model_ema": s}, "under 'model', without model_ema$"),
    "all at once": (
        lambda s: {"state_dict": prefixed({**headless(s), "head.weight": torch.zeros(2)}, "module.")},
        r"took what is under 'state_dict'; removed the prefix module\.; left out head\.weight, not needed for "
        r"features; it lacks fc\.weight, fc\.bias, not needed for features$",
    ),
    "no head": (headless, r"it lacks fc\.weight, fc\.bias, not needed for features$"),
    "a head for other classes": (
        lambda s: {**s, "fc.weight": torch.zeros(7, 1024), "fc.bias": torch.zeros(7)},
        r"left out fc\.weight, fc\.bias, not needed for features$",
    ),
    "more heads": (
        lambda s: {**s, "aux.0.weight": torch.zeros(7), "projection.bias": torch.zeros(7)},
        r"left out aux\.0\.weight, projection\.bias, not needed for features$",
    ),
    "part of a larger model": (
        lambda s: {**prefixed(headless(s), "image.encoder."), "text.weight": torch.zeros(7)},
        r"removed the prefix image\.encoder\.; left out text\.weight, .*; it lacks fc\.weight, fc\.bias, ",
    ),
    "numbers among tensors": (lambda s: {**s, "epoch": 3, "lr": 0.1}, "left out epoch, lr, which are not tensors$"),
    "without counters": (lambda s: {k: v for k, v in s.items() if "num_batches" not in k}, ""),
    "as it is": (dict, ""),
}


@pytest.mark.seconds
@pytest.mark.parametrize("shape", slow_but(SHAPES, "all at once", "part of a larger model", "as it is"))
def test_a_whole_trunk_is_taken_and_told_in_one_line(
    shape: str, state: State, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    content, said = SHAPES[shape]
    with caplog.at_level(logging.INFO, logger="vse"):
        network = load(content(state), tmp_path)
    filled = {key.removeprefix("trunk.extractor."): value for key, value in network.state_dict().items()}
    for key in headless(state):
        if "num_batches" not in key:
            torch.testing.assert_close(filled[key], state[key], rtol=0, atol=0)
    assert len(caplog.messages) == bool(said)
    if said:
        assert caplog.messages[0].startswith(f"{tmp_path}/w.pth: ")
        assert re.search(said, caplog.messages[0]), caplog.messages[0]


REFUSED: dict[str, tuple[Callable[[State], Any], str]] = {
    "a layer is missing": (
        lambda s: {k: v for k, v in s.items() if not k.startswith("conv5.0")},
        r"not weights of this architecture: conv5\.0\.weight is missing$",
    ),
    "layers are missing behind a prefix": (
        lambda s: prefixed({k: v for k, v in s.items() if not k.startswith("stage4")}, "module."),
        r": stage4\.0\.branch1\.0\.weight, .* and \d+ more are missing$",
    ),
    "a layer too many": (lambda s: {**s, "stage4.9.weight": torch.zeros(1)}, r": it has no stage4\.9\.weight$"),
    "another size": (
        lambda s: {**s, "conv5.0.weight": torch.zeros(3, 3)},
        r": conv5\.0\.weight has shape \(3, 3\), expected \(1024, 192, 1, 1\)$",
    ),
    "two networks": (
        lambda s: {**prefixed(s, "query."), **prefixed(s, "key.")},
        r"holds several networks of this architecture \(query\., key\.\); save one alone$",
    ),
    "two state dicts": (
        lambda s: {"teacher": s, "student": s},
        r"expected tensors by name \(a state dict\), got teacher, student; save only one of teacher, student$",
    ),
    "nothing": (lambda s: {}, "got nothing$"),
    "a list": (lambda s: [s], "expected tensors by name .*, got list$"),
}


@pytest.mark.seconds
@pytest.mark.parametrize("kind", slow_but(REFUSED, "a layer is missing", "two networks"))
def test_anything_else_is_refused_by_the_keys_that_do_not_fit(kind: str, state: State, tmp_path: Path) -> None:
    content, said = REFUSED[kind]
    with pytest.raises(InputError, match=rf"w\.pth: .*{said}"):
        load(content(state), tmp_path)


@pytest.mark.seconds
def test_another_depth_is_no_larger_head(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"it has no layer1\.2\.conv1\.weight, "):
        load(models.resnet34().state_dict(), tmp_path, "resnet18")


@pytest.mark.seconds
def test_layers_that_an_output_reads_are_part_of_the_trunk(tmp_path: Path) -> None:
    """The hidden layers of a VGG lie in its classifier, of which the last layer is not read."""
    with torch.device("meta"):
        keys = models.vgg11().state_dict()
    state = {key: torch.zeros(1).expand(value.shape) for key, value in keys.items()}
    state = {key: value for key, value in state.items() if not key.startswith("classifier.6")}
    backbone = TorchvisionBackbone(TorchvisionBackbone.Config(arch="vgg11", weights="random", size=64))
    trunk = backbone._trunk(models.vgg11().eval(), ("fc1",))
    with pytest.raises(InputError, match=r"classifier\.0\.weight is missing"):
        load_weights(trunk.extractor, {k: v for k, v in state.items() if k != "classifier.0.weight"}, "w", keys)
    load_weights(trunk.extractor, {**state, "classifier.6.weight": torch.zeros(3)}, "w", keys)


def test_the_small_backbone_takes_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shipped = dict(read_weights(str(SHIPPED)))
    save_file({**prefixed(shipped, "module."), "module.head.weight": torch.zeros(2)}, tmp_path / "w.safetensors")
    with caplog.at_level(logging.INFO, logger="vse"):
        network = SmallBackbone(SmallBackbone.Config(weights=str(tmp_path / "w.safetensors"))).load(["map"])
    assert "removed the prefix module.; left out head.weight" in caplog.text.replace("module.head", "head")
    torch.testing.assert_close(network.state_dict()["trunk.layers.conv1.weight"], shipped["conv1.weight"].float())


@pytest.mark.parametrize("name", ["w.pth", "w.safetensors"])
def test_what_stands_in_place_of_the_file_is_told_as_such(name: str, tmp_path: Path) -> None:
    for content, said in (
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "is a Git LFS pointer"),
        (b"<!DOCTYPE html><title>404</title>", "is an HTML or XML page"),
        (b"", "file is empty"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(InputError, match=rf"{name}: {said}"):
            read_weights(str(tmp_path / name))
