"""Batched cross attention against the published loop over captions, written out pair by pair; value and gradient."""

import dataclasses
import functools

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vse.models import cross_attention as module
from vse.models.cross_attention import Attention, cross_attention

T2I = Attention("t2i", 9.0, "lse", 6.0, 0.0)
AGGREGATES = ("lse", "mean", "max", "sum")


def batch(seed=0, images=3, captions=4, r=3, t=4, dim=3, dtype=torch.float64, absent=True):
    """Unit vectors; captions of 1 … t words, and some regions absent."""
    torch.manual_seed(seed)
    regions, words = torch.randn(images, r, dim, dtype=dtype), torch.randn(captions, t, dim, dtype=dtype)
    there = torch.rand(images, r) < 0.7 if absent else torch.ones(images, r, dtype=torch.bool)
    there[:, 0] = True
    lengths = torch.randint(1, t + 1, (captions,))
    lengths[0] = 1
    inside = torch.arange(t)[None] < lengths[:, None]
    unit = torch.nn.functional.normalize
    return unit(regions, dim=-1) * there[..., None], unit(words, dim=-1) * inside[..., None], there, lengths


def one_pair(regions, words, how):
    """The score of one image and one caption, element by element (SCAN's published order of steps)."""
    context, query = (regions, words) if how.direction == "t2i" else (words, regions)
    similarity = [[q @ c for c in context] for q in query]
    cut = [[s if s > 0 else how.slope * s for s in row] for row in similarity]
    for k in range(len(context)):  # each context element over all queries
        norm = torch.stack([row[k] ** 2 for row in cut]).sum()
        norm = norm.sqrt() if norm > 0 else norm
        for row in cut:
            row[k] = row[k] / (norm + 1e-8)
    relevant = []
    for q, row in zip(query, cut, strict=True):
        weights = torch.softmax(how.softmax * torch.stack(row), 0)
        attended = torch.stack([w * c for w, c in zip(weights, context, strict=True)]).sum(0)
        relevant.append(q @ attended / (q.norm() * attended.norm()).clamp_min(1e-8))
    values = torch.stack(relevant)
    return {
        "lse": torch.log(torch.exp(how.lse * values).sum()) / how.lse,
        "mean": values.mean(),
        "max": values.max(),
        "sum": values.sum(),
    }[how.aggregate]


def loop(regions, words, there, lengths, how):
    return torch.stack(
        [
            torch.stack([one_pair(v[m], e[:n], how) for e, n in zip(words, lengths.tolist(), strict=True)])
            for v, m in zip(regions, there, strict=True)
        ]
    )


@pytest.mark.seconds
@settings(max_examples=20, deadline=None)
@given(
    st.integers(0, 10_000),
    st.sampled_from(["t2i", "i2t"]),
    st.sampled_from(AGGREGATES),
    st.sampled_from([0.0, 0.1]),
    st.sampled_from([1, 60, 2**19]),
    st.sampled_from([0.0, 0.5, 1.0]),
)
@example(0, "i2t", "mean", 0.0, 60, 0.5)  # gradients of a layout that is not contiguous
def test_values_and_gradients_against_the_published_loop(seed, direction, aggregate, slope, at_once, dense):
    how = Attention(direction, 4.0, aggregate, 5.0, slope)
    *vectors, there, lengths = batch(seed)
    torch.manual_seed(seed)
    weight = torch.randn(3, 4, dtype=torch.float64) * (torch.rand(3, 4) < dense)
    leaves = [(vector * (1 + torch.rand(vector.shape[:2])[..., None])).requires_grad_() for vector in vectors]
    results = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "AT_ONCE", at_once)
        for route in (cross_attention, functools.partial(loop, there=there, lengths=lengths)):
            scores = route(*(torch.nn.functional.normalize(leaf, dim=-1) for leaf in leaves), how=how)
            results.append((scores, *torch.autograd.grad((scores * weight).sum(), leaves)))
    inside = [torch.ones(()), there[..., None], (torch.arange(4)[None] < lengths[:, None])[..., None]]
    for one, other, real in zip(*results, inside, strict=True):
        torch.testing.assert_close(one * real, other * real, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_both_routes_of_the_backward_pass_agree(monkeypatch, direction):
    how, (regions, words, *_) = dataclasses.replace(T2I, direction=direction), batch(4, images=6, captions=7)
    torch.manual_seed(0)
    weight = torch.randn(6, 7, dtype=torch.float64)
    found = []
    for few in (0.0, 1.0):  # block by block, pair by pair
        monkeypatch.setattr(module, "FEW", few)
        leaves = [regions.clone().requires_grad_(), words.clone().requires_grad_()]
        kept = weight * (torch.rand(6, 7, generator=torch.Generator().manual_seed(1)) < 0.4)
        found.append(torch.autograd.grad((cross_attention(leaves[0], leaves[1], how) * kept).sum(), leaves))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("slope", [0.0, 0.1])
@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_single_precision_is_within_1e_5_of_the_published_score(slope, direction):
    how = dataclasses.replace(T2I, direction=direction, slope=slope)
    regions, words, there, lengths = batch(1, images=2, captions=3, r=36, t=12, dim=64, dtype=torch.float32)
    expected = loop(regions.double(), words.double(), there, lengths, how)
    assert float((cross_attention(regions, words, how).double() - expected).abs().max()) < 1e-5


@pytest.mark.parametrize("direction", ["t2i", "i2t"])
def test_half_precision_is_scored_in_single(direction):
    how = dataclasses.replace(T2I, direction=direction)
    regions, words, *_ = batch(2, dtype=torch.float32)
    short = [x.bfloat16().requires_grad_() for x in (regions, words)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = cross_attention(short[0], short[1], how)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, cross_attention(short[0].float(), short[1].float(), how))
    assert all(g.dtype == torch.bfloat16 and g.isfinite().all() for g in torch.autograd.grad(scores.sum(), short))


@pytest.mark.parametrize("direction", ["t2i", "i2t"])
@pytest.mark.parametrize("aggregate", AGGREGATES)
def test_images_without_regions_and_equal_vectors_stay_finite(direction, aggregate):
    how = Attention(direction, 9.0, aggregate, 6.0, 0.0)
    regions, words, *_ = batch(3)
    regions[1] = 0
    words[2] = -words[2].abs()
    regions[0] = regions[0].abs()  # nothing is similar: every similarity is cut to zero
    leaves = [regions.requires_grad_(), words.requires_grad_()]
    scores = cross_attention(leaves[0], leaves[1], how)
    assert scores.isfinite().all()
    if direction == "i2t":  # no region attends
        assert not scores[1].any()
    assert all(g.isfinite().all() for g in torch.autograd.grad(scores.sum(), leaves))


@pytest.mark.parametrize(("images", "captions"), [(0, 4), (3, 0), (0, 0)])
def test_nothing_is_scored_with_nothing(images, captions):
    regions, words = torch.zeros(images, 5, 3, requires_grad=True), torch.zeros(captions, 2, 3, requires_grad=True)
    for direction in ("t2i", "i2t"):
        scores = cross_attention(regions, words, dataclasses.replace(T2I, direction=direction))
        assert scores.shape == (images, captions)
        assert not any(g.any() for g in torch.autograd.grad(scores.sum(), [regions, words]))
