"""The generalised pooling operator against loops, its special cases and its invariances."""

import numpy as np
import pytest
import torch

from tests.synthetic import make_family, make_objective, synthetic
from vse.models.encoders import present
from vse.models.pooling import GPO, descending, place_codes

DATA = synthetic(seed=5)


def _pool(double=True):
    torch.manual_seed(1)
    pool = GPO(position_dim=6, hidden=4)
    return pool.double() if double else pool


def _loop(pool, items, mask):
    rows = []
    for b in range(len(items)):
        kept = items[b][mask[b]]
        if not len(kept):
            rows.append(items[b].sum(0) * 0)
            continue
        states = pool.gru(place_codes(len(kept), 6)[None].to(items.dtype))[0][0]
        scores = pool.score((states[:, :4] + states[:, 4:]) / 2).squeeze(1) / 0.1
        theta = torch.softmax(scores, 0)
        ranked = kept.sort(0, descending=True).values
        rows.append(sum(theta[k] * ranked[k] for k in range(len(kept))))
    return torch.stack(rows)


@pytest.mark.parametrize("seed", range(3))
def test_values_and_gradients_against_a_loop(seed):
    pool = _pool()
    torch.manual_seed(seed)
    items = torch.randn(6, 5, 3, dtype=torch.float64).requires_grad_()
    mask = torch.rand(6, 5) < 0.6
    mask[2] = False
    weight = torch.randn(6, 3, dtype=torch.float64)
    leaves = [items, *pool.parameters()]
    ours, naive = pool(items, mask), _loop(pool, items, mask)
    torch.testing.assert_close(ours, naive, rtol=1e-10, atol=1e-12)
    assert not ours[2].any()
    found = torch.autograd.grad((ours * weight).sum(), leaves)
    for one, other in zip(found, torch.autograd.grad((naive * weight).sum(), leaves), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-11)
    whole = torch.ones_like(mask)
    torch.testing.assert_close(pool(items), pool(items, whole))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_order_is_that_of_a_sort_in_every_precision(dtype):
    torch.manual_seed(3)
    items = torch.randperm(5 * 7 * 3).view(5, 7, 3).to(dtype)
    items[1, 2:] = -torch.inf
    items.requires_grad_()
    weight = torch.randn(5, 7, 3).to(dtype)
    ours, other = descending(items), items.sort(dim=1, descending=True).values
    assert torch.equal(ours, other)
    finite = torch.isfinite(other)
    found, expected = (torch.autograd.grad((each[finite] * weight[finite]).sum(), items)[0] for each in (ours, other))
    assert torch.equal(found, expected)


def test_order_and_absent_items_change_nothing():
    pool, items = _pool(), torch.randn(2, 5, 3, dtype=torch.float64)
    pooled = pool(items)
    torch.testing.assert_close(pool(items[:, [3, 0, 4, 2, 1]]), pooled)
    more = torch.cat([items, torch.full((2, 3, 3), 9.0, dtype=torch.float64)], 1)
    torch.testing.assert_close(pool(more, torch.arange(8).expand(2, -1) < 5), pooled)


def test_mean_and_maximum_are_special_cases():
    pool, items = _pool(), torch.randn(3, 5, 4, dtype=torch.float64)
    with torch.no_grad():
        pool.score.weight.zero_()
    torch.testing.assert_close(pool(items), items.mean(1))

    def first_alone(sizes: torch.Tensor, longest: int, falling: bool = False) -> torch.Tensor:
        return torch.eye(longest, dtype=torch.float64)[:1].expand(len(sizes), -1)

    pool.weights = first_alone
    torch.testing.assert_close(pool(items), items.amax(1))


def test_weights_sum_to_one_whatever_the_number():
    theta = _pool().weights(torch.tensor([1, 3, 7]), 7)
    torch.testing.assert_close(theta.sum(1), torch.ones(3, dtype=torch.float64))
    assert not theta[0, 1:].any()
    assert not theta[1, 3:].any()


@pytest.mark.parametrize("name", ["vsepp", "vse_infinity", "univse"])
@pytest.mark.parametrize("pooling", ["gpo", "maxk"])
def test_absent_regions_of_ready_made_arrays_are_zeros_and_change_nothing(name, pooling):
    family = make_family(name, DATA.context, image="map", pooling=pooling).eval()
    batch = DATA.collator(family, make_objective(name))(np.arange(5), 0)
    padded = batch | {"map": torch.cat([batch["map"], torch.zeros(5, 4, 5, dtype=torch.float64)], 1)}
    assert present(batch["map"]) is None
    assert present(padded["map"]) is not None
    torch.testing.assert_close(family.encode_images(padded)["images"], family.encode_images(batch)["images"])


def test_augmentation_belongs_to_the_caption_and_is_for_training_only():
    family = make_family("vse_infinity", DATA.context)
    batch = DATA.collator(family, make_objective("vse_infinity"))(np.arange(len(DATA)), 0)
    some = DATA.collator(family, make_objective("vse_infinity"))(np.array([4, 1]), 0)
    whole, part = family(batch), family(some)
    plain = family.eval()(batch)
    for key in ("images", "captions"):
        torch.testing.assert_close(part[key], whole[key][[4, 1]])
        assert not torch.allclose(whole[key], plain[key])
