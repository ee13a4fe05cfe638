"""The optimisation step: what is differentiated, clipped, decayed and logged."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.synthetic import gradients, make_family, make_objective, synthetic
from vse.models.family import Phase
from vse.training.config import OptimConfig
from vse.training.step import Stepper, make_optimizer, step_losses


def _setup(name="univse", **changes):
    data = synthetic(seed=1)
    family, objective = make_family(name, data.context, **changes), make_objective(name)
    return family, objective, data.collator(family, objective)(np.arange(8), 2)


@pytest.mark.parametrize("name", ["vsepp", "univse"])
def test_the_total_is_the_weighted_sum_of_the_named_losses(name):
    family, objective, batch = _setup(name)
    total, losses = step_losses(family, objective, batch, 2)
    expected = sum(objective.weights(2)[n] * float(v) for n, v in losses.items())
    assert float(total.detach()) == pytest.approx(expected, rel=1e-12)
    assert all(not value.requires_grad for value in losses.values())
    some = step_losses(family, objective, batch, 2, frozenset({"sent"}))
    assert set(some[1]) == {"sent"}
    assert float(some[0].detach()) == pytest.approx(float(losses["sent"]))


@pytest.mark.parametrize("clip", [0.0, 0.3])
def test_one_step_is_adam_on_clipped_gradients(clip):
    family, objective, batch = _setup()
    reference, _, _ = _setup()
    reference.load_state_dict(family.state_dict())
    stepper = Stepper(family, family, objective, OptimConfig(lr=0.01, clip=clip), "float64")
    adam = torch.optim.Adam([p for p in reference.parameters() if p.requires_grad], lr=0.01)
    for rate in (0.01, 0.004):
        stepper.set_rate(rate)
        adam.param_groups[0]["lr"] = rate
        logged = stepper.step(batch, 2)
        adam.zero_grad()
        total, losses = step_losses(reference, objective, batch, 2)
        total.backward()
        norm = torch.sqrt(sum((g.square().sum() for g in gradients(reference).values()), torch.zeros(())))
        if clip:
            for p in reference.parameters():
                if p.grad is not None:
                    p.grad.mul_(min(1.0, clip / float(norm)))
        adam.step()
        assert float(logged["gradient"]) == pytest.approx(float(norm), rel=1e-9)
        assert norm > clip
        for name, value in losses.items():
            torch.testing.assert_close(logged[name], value)
        for ours, theirs in zip(family.parameters(), reference.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-8)


def test_weight_decay_touches_matrices_only():
    matrix, vector = nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(3))
    optimizer = make_optimizer(Phase("all", None, (matrix, vector)), OptimConfig(lr=0.1, weight_decay=0.5))
    matrix.grad, vector.grad = torch.zeros_like(matrix), torch.zeros_like(vector)
    optimizer.step()
    assert torch.equal(vector, torch.ones(3))
    torch.testing.assert_close(matrix.detach(), torch.full((2, 3), 0.95))


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_half_precision_without_a_gpu_is_no_single_precision_by_another_name(precision):
    family, objective, _ = _setup()
    with pytest.raises(AssertionError, match=f"{precision} without a GPU"):
        Stepper(family, family, objective, OptimConfig(), precision)


@pytest.mark.seconds
@pytest.mark.parametrize("name", ["vsepp", "univse"])
def test_steps_learn(name):
    family, objective, batch = _setup(name)
    stepper = Stepper(family, family, objective, OptimConfig(lr=0.01), "float64")
    losses = [float(stepper.step(batch, 2)["sent"]) for _ in range(60)]
    assert losses[-1] < 0.5 * losses[0]
