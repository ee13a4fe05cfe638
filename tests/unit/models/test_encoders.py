"""Shared encoders: normalisation, word tables, distinct numbers, initial weights, pooling of masked regions."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vse.models.encoders import PooledEncoder, RegionEncoder, WordTable, distinct, linear_xavier, unit
from vse.models.family import Context


def test_unit_of_anything_and_of_nothing():
    x = torch.randn(3, 2, 5, dtype=torch.float64)
    torch.testing.assert_close(unit(x), x / x.norm(dim=-1, keepdim=True))
    zero = torch.zeros(1, 4, requires_grad=True)
    unit(zero).sum().backward()
    assert zero.grad is not None
    assert not unit(zero).any()
    assert zero.grad.isfinite().all()


@given(st.lists(st.lists(st.integers(0, 6), max_size=5), min_size=1, max_size=3))
def test_distinct_gives_the_numbers_back(lists):
    tensors = [torch.tensor(numbers, dtype=torch.long) for numbers in lists]
    values, parts = distinct(*tensors)
    assert values[0] == 0
    assert values.tolist() == sorted({0}.union(*lists))
    for tensor, part in zip(tensors, parts, strict=True):
        assert torch.equal(values[part], tensor)
        assert part.shape == tensor.shape


def test_given_vectors_stay_and_unknown_words_get_some():
    vectors = torch.zeros(6, 4)
    vectors[2:5] = torch.randn(3, 4)
    for fixed in (True, False):
        table = WordTable(Context(6, {}, vectors), dim=99, fixed=fixed)
        assert table.dim == 4
        torch.testing.assert_close(table(torch.arange(2, 5)), vectors[2:5])
        assert table(torch.tensor([5])).abs().sum() > 0
        assert table.embedding.weight.requires_grad is not fixed


def test_learned_vectors_are_uniform():
    table = WordTable(Context(2000, {}), dim=5, fixed=True)
    assert table.embedding.weight.requires_grad
    weights = table.embedding.weight.detach()
    assert float(weights.abs().max()) <= 0.1
    assert float(weights.std()) == pytest.approx(0.2 / math.sqrt(12), rel=0.05)
    table(torch.tensor([0, 1])).sum().backward()
    assert table.embedding.weight.grad is not None
    assert not table.embedding.weight.grad[0].any()


def test_linear_xavier():
    layer = linear_xavier(30, 70)
    weight = layer.weight.detach()
    assert float(weight.abs().max()) <= math.sqrt(6 / 100)
    assert float(weight.std()) == pytest.approx(math.sqrt(2 / 100), rel=0.1)
    assert not layer.bias.any()


def test_dropout_keeps_the_mean_of_scaled_features():
    """Features are dropped after they are scaled, so that what is left out is the channel's mean and not zero."""
    torch.manual_seed(0)
    encoder = PooledEncoder(1, 1, "standardize", dropout=0.5)
    encoder.scale.fit(iter([torch.tensor([[9.0], [11.0]])]))
    with torch.no_grad():
        encoder.project.weight.fill_(1.0)
    encoder.project.register_forward_hook(lambda module, args, out: seen.extend(args[0].flatten().tolist()))
    seen: list[float] = []
    encoder(torch.full((1000, 1), 11.0), torch.arange(1000))
    assert 400 < seen.count(0.0) < 600
    assert set(seen) == {0.0, 2.0}
    seen.clear()
    encoder.eval()(torch.full((3, 1), 11.0))
    assert seen == [1.0] * 3


@pytest.mark.parametrize("pooling", ["avg", "max", "maxk"])
def test_masked_regions_do_not_count(pooling):
    torch.manual_seed(0)
    encoder = RegionEncoder(3, 4, pooling, 2, "none").double()
    features = torch.randn(2, 5, 3, dtype=torch.float64)
    mask = torch.tensor([[True, True, True, False, False], [True] * 5])
    pooled = encoder(features, mask)[1]
    torch.testing.assert_close(pooled[0], encoder(features[:1, :3])[1][0])
    torch.testing.assert_close(pooled[1], encoder(features[1:])[1][0])
