"""A step of every family where the parameters and the batch are on a GPU: its double, and a true one where one is."""

import copy

import pytest
import torch

from tests.gpu import TRUE, a_gpu
from tests.levels import slow_but
from tests.unit.training.test_synchronising import CASES, set_up
from vse.training.config import OptimConfig
from vse.training.step import Stepper

# One each of what families and losses compute with: vectors, words, states, components, phases, negatives, scalars.
EVERY_PUSH = ("vsepp", "vsepp sigmoid", "univse", "univse learned alpha", "scan", "jwae", "jwae mmd", "relational")
EVERY_PUSH += ("similarity_network", "vsec batch", "vsepp states", "cite own negatives", "vse_infinity")


@pytest.mark.seconds
@pytest.mark.parametrize("case", slow_but([case for case in CASES if not case.startswith("cca")], *EVERY_PUSH))
def test_a_step_keeps_to_the_gpu_and_computes_what_a_cpu_does(case: str) -> None:
    family, objective, batch = set_up(case)
    moved = copy.deepcopy(family)
    expected = Stepper(family, family, objective, OptimConfig(), "float64").step(batch, 2, 1)
    with a_gpu() as gpu:
        moved.to(gpu)
        assert all(tensor.data.is_cuda for tensor in moved.state_dict().values())
        there = {name: tensor.to(gpu) for name, tensor in batch.items()}
        losses = Stepper(moved, moved, objective, OptimConfig(), "float64").step(there, 2, 1)
        assert {name: loss.item() for name, loss in losses.items()} == pytest.approx(
            {name: loss.item() for name, loss in expected.items()}, rel=1e-9
        )
        weights = {name: tensor.cpu() for name, tensor in moved.state_dict().items()}
    torch.testing.assert_close(weights, dict(family.state_dict()), rtol=1e-9, atol=1e-9)


@pytest.mark.skipif(not TRUE, reason="half precision is for GPUs")
@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize("case", [case for case in CASES if not case.startswith("cca")])
def test_steps_in_half_precision_find_the_losses_of_single(case: str, precision: str) -> None:
    """As far as eleven or eight bits of a product's factors allow; weights stay in single precision."""
    found = {}
    for name in ("float32", precision):
        family, objective, batch = set_up(case)
        family.float().cuda()
        there = {key: (value.float() if value.is_floating_point() else value).cuda() for key, value in batch.items()}
        stepper = Stepper(family, family, objective, OptimConfig(), name)
        found[name] = {key: loss.item() for key, loss in stepper.step(there, 2, 1).items()}
        assert all(parameter.dtype == torch.float32 for parameter in family.parameters())
        found[name] |= {f"later {key}": loss.item() for key, loss in stepper.step(there, 2, 3).items()}
    losses = {name: {key: loss for key, loss in each.items() if "gradient" not in key} for name, each in found.items()}
    assert losses[precision] == pytest.approx(losses["float32"], rel=0.1, abs=0.05)
