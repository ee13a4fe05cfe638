"""The sigmoid loss against a loop over pairs, value and gradient."""

import math

import pytest
import torch

from tests.unit.objectives.test_infonce import gathered
from vse.objectives.hinge import excluded_pairs
from vse.objectives.sigmoid import BIAS, SCALE, Sigmoid, pairwise_sigmoid


@pytest.mark.parametrize("mask", ["same", "none"])
@pytest.mark.parametrize("seed", range(3))
def test_against_a_loop(mask, seed):
    batch = gathered(seed)
    leaves = [batch["images"].requires_grad_(), batch["captions"].requires_grad_()]
    scalars = {SCALE: torch.tensor(0.9, dtype=torch.float64), BIAS: torch.tensor(-1.3, dtype=torch.float64)}
    leaves += [value.requires_grad_() for value in scalars.values()]
    objective = Sigmoid(Sigmoid.Config(mask=mask))
    assert objective.scalars == {SCALE: math.log(10), BIAS: -10.0}
    ours = objective(batch, batch | scalars, 0)["sent"]
    excluded, naive = excluded_pairs(batch, mask), torch.zeros((), dtype=torch.float64)
    for i in range(7):
        for j in range(7):
            if i == j or not excluded[i, j]:
                logit = scalars[SCALE].exp() * (leaves[0][i] @ leaves[1][j]) + scalars[BIAS]
                naive = naive - torch.log(torch.sigmoid(logit if i == j else -logit))
    torch.testing.assert_close(ours, naive, rtol=1e-12, atol=1e-12)
    for one, other in zip(torch.autograd.grad(ours, leaves), torch.autograd.grad(naive, leaves), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_large_logits_stay_finite():
    logits = torch.tensor([[500.0, -500.0], [500.0, 500.0]], requires_grad=True)
    loss = pairwise_sigmoid(logits, torch.zeros(2, 2, dtype=torch.bool))
    assert float(loss.detach()) == pytest.approx(500)
    (gradient,) = torch.autograd.grad(loss, logits)
    assert gradient.isfinite().all()
