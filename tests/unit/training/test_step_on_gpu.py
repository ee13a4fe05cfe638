"""A step of every family where the parameters and the batch are on a GPU, as far as a machine without one can tell."""

import copy

import pytest
import torch

from tests.gpu import OnGPU, a_gpu
from tests.unit.training.test_synchronising import CASES, set_up
from vse.training.config import OptimConfig
from vse.training.step import Stepper


@pytest.mark.parametrize("case", [case for case in CASES if not case.startswith("cca")])
def test_a_step_keeps_to_the_gpu_and_computes_what_a_cpu_does(case: str) -> None:
    family, objective, batch = set_up(case)
    moved = copy.deepcopy(family)
    expected = Stepper(family, family, objective, OptimConfig(), "float64").step(batch, 2, 1)
    with a_gpu() as gpu:
        moved.to(gpu)
        assert all(isinstance(tensor.data, OnGPU) for tensor in moved.state_dict().values())
        there = {name: tensor.to(gpu) for name, tensor in batch.items()}
        losses = Stepper(moved, moved, objective, OptimConfig(), "float64").step(there, 2, 1)
        assert {name: loss.item() for name, loss in losses.items()} == pytest.approx(
            {name: loss.item() for name, loss in expected.items()}, rel=1e-9
        )
        weights = {name: tensor.cpu() for name, tensor in moved.state_dict().items()}
    torch.testing.assert_close(weights, dict(family.state_dict()), rtol=1e-9, atol=1e-9)
