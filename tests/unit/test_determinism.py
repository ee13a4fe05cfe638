"""How a process computes is settled by one function, wherever a run trains, is measured, is served or is extracted."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import torch

from tests.synthetic import make_family, synthetic
from vse.determinism import repeatable, use_reproducible_arithmetic
from vse.features.backbone import Network
from vse.features.forward import Forward
from vse.features.small_backbone import SmallBackbone
from vse.inference.embedder import Embedder
from vse.presets import preset
from vse.stages.train import training_device
from vse.stages.trained import Trained
from vse.storage.folder import Folder
from vse.text.vocabulary import build_vocabulary
from vse.training.config import TrainConfig

CUDNN: Any = torch.backends.cudnn
DETERMINISTIC: Any = torch.utils.deterministic
CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def _tf32() -> dict[str, Any]:
    return {
        "products": torch.backends.cuda.matmul.allow_tf32,
        "cudnn": CUDNN.allow_tf32,
        "rnn": CUDNN.rnn.fp32_precision,
        "conv": CUDNN.conv.fp32_precision,
    }


SETTLED = {"products": False, "cudnn": False, "rnn": "ieee", "conv": "ieee"}


@pytest.fixture(autouse=True)
def unsettled() -> Iterator[None]:
    """torch as it comes; what a test set is taken back."""
    torch.backends.cuda.matmul.allow_tf32, CUDNN.allow_tf32 = True, True
    CUDNN.rnn.fp32_precision = CUDNN.conv.fp32_precision = "tf32"
    CUDNN.benchmark, CUDNN.deterministic = True, False
    assert _tf32() != SETTLED
    fill = DETERMINISTIC.fill_uninitialized_memory
    yield
    torch.use_deterministic_algorithms(False)
    DETERMINISTIC.fill_uninitialized_memory = fill
    use_reproducible_arithmetic(CPU)


def _trained() -> Trained:
    data = synthetic()
    family = make_family("vsepp", data.context).eval()
    return Trained(preset("vsepp_tiny"), family, build_vocabulary(["a dog"]), Folder.open("/nowhere"))


@pytest.mark.parametrize(
    "begin",
    [
        lambda: use_reproducible_arithmetic(CPU),
        lambda: training_device(TrainConfig()),
        lambda: _trained().to(CPU),
        lambda: Embedder(_trained()),
        lambda: Forward(SmallBackbone.Config(), ("pooled",)),
    ],
    ids=["itself", "training", "measuring", "serving", "extracting"],
)
def test_single_precision_is_single_and_algorithms_are_fixed_wherever_it_begins(begin: Any) -> None:
    begin()
    assert _tf32() == SETTLED
    assert (CUDNN.benchmark, CUDNN.deterministic) == (False, True)
    assert not torch.are_deterministic_algorithms_enabled()  # on a CPU nothing is left to choose


def test_on_a_gpu_operators_take_their_deterministic_algorithms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    use_reproducible_arithmetic(CUDA)
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.is_deterministic_algorithms_warn_only_enabled()
    assert not DETERMINISTIC.fill_uninitialized_memory
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    use_reproducible_arithmetic(CUDA)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"  # what a user set stays


def test_features_are_made_in_single_precision_on_a_gpu_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of a store may come from a machine with a GPU: its name says nothing of a precision."""
    prepare, devices = Network.prepare, []

    def watched(network: Network, device: torch.device, precision: str = "float32") -> Network:
        devices.append(device)
        return prepare(network, CPU, precision)

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(Network, "prepare", watched)
    forward = Forward(SmallBackbone.Config(), ("map",))
    assert devices == [CUDA]
    assert {parameter.dtype for parameter in forward.network.parameters()} == {torch.float32}
    assert _tf32() == SETTLED
    monkeypatch.undo()
    pixels = np.random.default_rng(0).integers(0, 256, (2, 1, 112, 112, 3), dtype=np.uint8)
    assert np.array_equal(forward(pixels)["map"], Forward(SmallBackbone.Config(), ("map",))(pixels)["map"])


def test_settling_again_changes_nothing_that_a_cpu_computes() -> None:
    """A recurrent network and its gradient, bit by bit, before and after."""
    torch.manual_seed(0)
    network, x = torch.nn.GRU(5, 7, batch_first=True), torch.randn(3, 4, 5)
    found = []
    for _ in range(2):
        network.zero_grad()
        network(x)[0].square().sum().backward()
        found.append([p.grad.clone() for p in network.parameters() if p.grad is not None])
        use_reproducible_arithmetic(CPU)
    assert all(np.array_equal(a.numpy(), b.numpy()) for a, b in zip(*found, strict=True))


def _asked() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


@pytest.mark.parametrize("settled", [True, False])
def test_a_backward_pass_on_a_gpu_may_raise_and_leaves_things_as_they_were(settled: bool) -> None:
    if settled:
        use_reproducible_arithmetic(CUDA)
    before = _asked()
    with repeatable(CPU):
        assert _asked() == before
    passing = ExitStack()
    passing.enter_context(repeatable(CUDA))
    assert _asked() == (True, False)
    with pytest.raises(ZeroDivisionError), passing:
        raise ZeroDivisionError
    assert _asked() == before == (settled, settled)
