"""AdamW without torch's compiler: the same updates, and no import of it."""

import copy
import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

from vse.training.step import EagerAdamW

_A_TRAINING = """
import sys
import torch
from vse.stages import train
from vse.training.step import EagerAdamW
weights = torch.ones(3, requires_grad=True)
optimizer = EagerAdamW([{"params": [weights], "weight_decay": 0.1}], lr=0.1)
for _ in range(2):
    weights.square().sum().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
optimizer.load_state_dict(optimizer.state_dict())
print(*[name for name in ("torch._dynamo", "sympy", "scipy", "torch.optim") if name in sys.modules])
"""


def _groups(model: nn.Module) -> list[dict[str, object]]:
    return [
        {"params": [p for p in model.parameters() if p.ndim > 1], "weight_decay": 0.3},
        {"params": [p for p in model.parameters() if p.ndim <= 1], "weight_decay": 0.0},
    ]


def _gradients(model: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for number, parameter in enumerate(model.parameters()):
        parameter.grad = None if (number + seed) % 3 == 0 else torch.randn(parameter.shape, generator=generator)


@pytest.mark.parametrize("foreach", [None, True, False])
def test_its_updates_are_those_of_torch(foreach: bool | None) -> None:
    ours = nn.Sequential(nn.Linear(3, 5), nn.Linear(5, 2))
    theirs = copy.deepcopy(ours)
    mine = EagerAdamW(_groups(ours), lr=0.01, betas=(0.8, 0.9), foreach=foreach)
    reference = torch.optim.AdamW(_groups(theirs), lr=0.01, betas=(0.8, 0.9), foreach=foreach)
    for step in range(5):
        for model, optimizer in ((ours, mine), (theirs, reference)):
            optimizer.param_groups[0]["lr"] = 0.01 / (step + 1)
            _gradients(model, step)
            optimizer.step()
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(a, b)
        mine.zero_grad(set_to_none=True)
        assert all(parameter.grad is None for parameter in ours.parameters())


def test_its_state_goes_over_to_torch_and_back() -> None:
    model = nn.Linear(4, 3)
    first = EagerAdamW(_groups(model), lr=0.01)
    _gradients(model, 1)
    first.step()
    reference = torch.optim.AdamW(_groups(model), lr=0.5)
    reference.load_state_dict(first.state_dict())
    again = EagerAdamW(_groups(model), lr=0.5)
    again.load_state_dict(reference.state_dict())
    assert again.param_groups[0]["lr"] == 0.01
    for parameter, state in first.state.items():
        for name, value in state.items():
            assert isinstance(value, Tensor)
            assert torch.equal(again.state[parameter][name], value), name


def test_the_graph_of_gradients_does_not_grow_by_its_steps() -> None:
    weights = torch.ones(3, requires_grad=True)
    optimizer = EagerAdamW([weights], lr=0.1)
    weights.square().sum().backward()
    optimizer.step()
    assert weights.is_leaf
    assert torch.is_grad_enabled()


@pytest.mark.process
@pytest.mark.slow
def test_a_process_that_trains_imports_neither_the_compiler_nor_scipy() -> None:
    done = subprocess.run([sys.executable, "-c", _A_TRAINING], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["torch.optim"]
