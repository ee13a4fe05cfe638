"""InfoNCE against a loop over pairs, value and gradient; its bound; masks."""

import math

import pytest
import torch

from vse.objectives.hinge import excluded_pairs
from vse.objectives.infonce import HIGHEST, SCALE, InfoNCE, bounded_exp, info_nce


def gathered(seed=0, num=7, groups=True):
    torch.manual_seed(seed)
    codes = torch.nn.functional.normalize(torch.randn(2, num, 5, dtype=torch.float64), dim=-1)
    image = torch.tensor([0, 0, 1, 2, 3, 3, 4])[:num] if groups else torch.arange(num)
    text = torch.tensor([0, 1, 2, 0, 3, 4, 5])[:num] if groups else torch.arange(num)
    return {"images": codes[0], "captions": codes[1], "image_group": image, "text_group": text}


def _loop(scores, excluded, scale):
    total = torch.zeros((), dtype=scores.dtype)
    for i in range(len(scores)):
        for rows in (scores, scores.T):
            hidden = excluded if rows is scores else excluded.T
            kept = [j for j in range(len(scores)) if j == i or not hidden[i, j]]
            exps = [torch.exp(scale * rows[i, j]) for j in kept]
            total = total - torch.log(torch.exp(scale * rows[i, i]) / torch.stack(exps).sum()) / 2
    return total


@pytest.mark.parametrize("mask", ["same", "none"])
@pytest.mark.parametrize("seed", range(3))
def test_against_a_loop(mask, seed):
    batch = gathered(seed)
    leaves = [batch["images"].requires_grad_(), batch["captions"].requires_grad_()]
    scale = torch.tensor(1.7, dtype=torch.float64, requires_grad=True)
    objective = InfoNCE(InfoNCE.Config(mask=mask))
    ours = objective(batch, batch | {SCALE: scale}, 0)["sent"]
    excluded = excluded_pairs(batch, mask)
    assert excluded.any() == (mask == "same")
    naive = _loop(leaves[0] @ leaves[1].T, excluded, scale.exp())
    torch.testing.assert_close(ours, naive, rtol=1e-12, atol=1e-12)
    for one, other in zip(
        torch.autograd.grad(ours, [*leaves, scale]), torch.autograd.grad(naive, [*leaves, scale]), strict=True
    ):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_a_fixed_temperature_asks_the_family_for_nothing():
    batch = gathered()
    fixed = InfoNCE(InfoNCE.Config(learn=False, temperature=0.2))
    assert not fixed.scalars
    learned = InfoNCE(InfoNCE.Config(temperature=0.2))
    assert learned.scalars == {SCALE: -math.log(0.2)}
    first = learned(batch, batch | {SCALE: torch.tensor(learned.scalars[SCALE], dtype=torch.float64)}, 0)["sent"]
    torch.testing.assert_close(fixed(batch, batch, 0)["sent"], first)


def test_equal_codes_lose_the_logarithm_of_their_number():
    rows, columns = info_nce(torch.full((6, 6), 3.0), torch.zeros(6, 6, dtype=torch.bool))
    assert float(rows) == pytest.approx(6 * math.log(6), rel=1e-6)
    assert float(columns) == pytest.approx(6 * math.log(6), rel=1e-6)


def test_everything_excluded_loses_nothing():
    rows, columns = info_nce(torch.randn(4, 4), torch.ones(4, 4, dtype=torch.bool))
    assert float(rows.abs() + columns.abs()) < 1e-6


def test_the_scale_is_bounded_and_can_come_back():
    above = torch.tensor(HIGHEST + 1, requires_grad=True)
    value = bounded_exp(above)
    assert float(value.detach()) == pytest.approx(100, rel=1e-5)
    (gradient,) = torch.autograd.grad(value, above)
    assert float(gradient) == pytest.approx(100, rel=1e-5)


def test_scores_of_a_pairwise_family_are_taken_as_they_are():
    batch = gathered()
    objective = InfoNCE(InfoNCE.Config(learn=False))
    own = objective(batch, batch, 0)["sent"]
    scores = batch["images"] @ batch["captions"].T
    assert torch.equal(
        objective({}, {**{k: batch[k] for k in ("image_group", "text_group")}, "scores": scores}, 0)["sent"], own
    )
