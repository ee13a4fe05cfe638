"""Spatial pooling against sorting loops; gradients against autograd and, at ties, against the stated sharing."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vse.models.pooling import pool_regions


def _naive(regions, how, k, mask):
    out = torch.zeros(regions.shape[0], regions.shape[2], dtype=regions.dtype)
    for b in range(regions.shape[0]):
        for d in range(regions.shape[2]):
            values = [regions[b, r, d] for r in range(regions.shape[1]) if mask is None or mask[b, r]]
            if not values:
                continue
            values = sorted(values, key=lambda value: value.detach().item(), reverse=True)
            chosen = {"avg": values, "max": values[:1], "maxk": values[:k]}[how]
            out[b, d] = torch.stack(chosen).mean()
    return out


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["avg", "max", "maxk"]), st.integers(1, 9), st.booleans())
def test_values_and_gradients_against_a_sorting_loop(seed, how, k, masked):
    torch.manual_seed(seed)
    regions = torch.randn(4, int(torch.randint(1, 8, ())), 3, dtype=torch.float64)
    mask = torch.rand(regions.shape[:2]) < 0.6 if masked else None
    weight = torch.randn(4, 3, dtype=torch.float64)
    results = []
    for route in (pool_regions, _naive):
        leaf = regions.clone().requires_grad_()
        pooled = route(leaf, how, k, mask)
        grad = (
            torch.autograd.grad((pooled * weight).sum(), leaf, allow_unused=True)[0] if pooled.requires_grad else None
        )
        results.append((pooled.detach(), torch.zeros_like(leaf) if grad is None else grad))
    for ours, naive in zip(*results, strict=True):
        torch.testing.assert_close(ours, naive, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("how", ["avg", "max", "maxk"])
@pytest.mark.parametrize("rows", [0, 2])
@pytest.mark.parametrize("masked", [False, True])
def test_no_region_at_all_is_pooled_to_zero_and_keeps_the_graph(how, rows, masked):
    regions = torch.zeros(rows, 0, 3, dtype=torch.float64, requires_grad=True)
    pooled = pool_regions(regions, how, mask=torch.zeros(rows, 0, dtype=torch.bool) if masked else None)
    assert torch.equal(pooled, torch.zeros(rows, 3, dtype=torch.float64))
    (gradient,) = torch.autograd.grad(pooled.sum(), regions)
    assert gradient.shape == regions.shape


def test_gradcheck():
    regions = torch.randperm(2 * 7 * 3).reshape(2, 7, 3).double().requires_grad_()  # no ties
    assert torch.autograd.gradcheck(lambda x: pool_regions(x, "maxk", 3), (regions,))


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_ties_share_what_is_left_of_the_weight(k):
    # Five regions: one above, three tied, one below.
    column = torch.tensor([1.0, 5.0, 1.0, 0.0, 1.0], dtype=torch.float64)
    regions = column[None, :, None].repeat(2, 1, 3).requires_grad_()
    pooled = pool_regions(regions, "maxk", k)
    pooled.sum().backward()
    largest = sorted(column.tolist(), reverse=True)[:k]
    assert torch.allclose(pooled, torch.tensor(sum(largest) / k, dtype=torch.float64), rtol=1e-14)
    tied = min(k - 1, 3) / 3
    expected = torch.tensor([tied, 1, tied, float(k == 5), tied], dtype=torch.float64) / k
    assert regions.grad is not None
    torch.testing.assert_close(regions.grad[1, :, 2], expected, rtol=1e-15, atol=0)
    assert torch.allclose(regions.grad.sum(1), torch.ones(2, 3, dtype=torch.float64), rtol=1e-15)


@pytest.mark.parametrize("shape", [(3, 5, 1), (3, 5, 4), (3, 1, 4)])
def test_the_input_stays_as_it_is_whatever_its_strides(shape):
    torch.manual_seed(0)
    plain = torch.randn(shape)
    for regions in (plain.clone(), plain.transpose(1, 2).contiguous().transpose(1, 2)):
        pooled = pool_regions(regions, "maxk", 2)
        assert torch.equal(regions, plain)
        torch.testing.assert_close(pooled, _naive(plain, "maxk", 2, None))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_types(dtype):
    regions = torch.randn(2, 6, 3).to(dtype).requires_grad_()
    pooled = pool_regions(regions, "maxk", 4)
    assert pooled.dtype == dtype
    torch.testing.assert_close(pooled.float(), _naive(regions.float(), "maxk", 4, None), rtol=2e-2, atol=2e-2)
    pooled.sum().backward()


def test_more_than_there_are_is_the_mean_and_one_is_the_maximum():
    regions = torch.randn(2, 6, 3)
    torch.testing.assert_close(pool_regions(regions, "maxk", 49), pool_regions(regions, "avg"))
    assert torch.equal(pool_regions(regions, "maxk", 1), pool_regions(regions, "max"))
    assert pool_regions(regions[:0], "maxk", 2).shape == (0, 3)
