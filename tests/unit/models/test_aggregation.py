"""Aggregation of components against loops over captions; order, padding and company change nothing."""

import pytest
import torch
from torch import nn

from vse.models.univse import Aggregation, shuffled

KINDS = ("avg", "sum", "max", "gru", "attention")


def _case(seed=0, batch=5, items=6, dim=4):
    torch.manual_seed(seed)
    numbers = torch.randint(1, 1000, (batch, items))
    mask = torch.rand(batch, items) < 0.6
    mask[0] = False  # a caption without components
    mask[1] = True
    values = torch.randn(batch, items, dim, dtype=torch.float64)
    return values, mask, numbers


def _naive(module, values, mask, numbers):
    rows = []
    for items, present, ids in zip(values, mask, numbers, strict=True):
        shown = items[present]
        if not len(shown):
            rows.append(torch.zeros_like(items[0]))
        elif module.how == "avg":
            rows.append(shown.mean(0))
        elif module.how == "sum":
            rows.append(shown.sum(0))
        elif module.how == "max":
            rows.append(torch.stack([column[int(column.detach().argmax())] for column in shown.T]))
        elif module.how == "attention":
            energies = [module.weight.weight @ torch.tanh(module.hidden.weight @ u) for u in shown]
            weights = torch.stack(energies).exp() / torch.stack(energies).exp().sum()
            rows.append((weights * shown).sum(0))
        else:
            order = sorted(range(len(shown)), key=lambda k: int(shuffled(ids[present][k])))
            rows.append(module.gru(shown[order][None])[1][0, 0])
    return torch.stack(rows)


@pytest.mark.parametrize("how", KINDS)
def test_values_and_gradients_against_a_loop(how):
    module = Aggregation(how, 4).double()
    values, mask, numbers = _case()
    weight = torch.randn(5, 4, dtype=torch.float64)
    results = []
    for route in (module, lambda *args: _naive(module, *args)):
        leaf = values.clone().requires_grad_()
        out = route(leaf, mask, numbers)
        results.append([out.detach(), *torch.autograd.grad((out * weight).sum(), [leaf, *module.parameters()])])
    for ours, naive in zip(*results, strict=True):
        torch.testing.assert_close(ours, naive, rtol=1e-10, atol=1e-12)
    assert not results[0][0][0].any()


@pytest.mark.parametrize("how", KINDS)
def test_order_padding_and_company_change_nothing(how):
    module = Aggregation(how, 4).double()
    values, mask, numbers = _case(1)
    out = module(values, mask, numbers)
    order = torch.randperm(6)
    torch.testing.assert_close(module(values[:, order], mask[:, order], numbers[:, order]), out, rtol=1e-12, atol=1e-13)
    wide = (
        nn.functional.pad(values, (0, 0, 0, 3), value=9.0),
        nn.functional.pad(mask, (0, 3)),
        nn.functional.pad(numbers, (0, 3)),
    )
    torch.testing.assert_close(module(*wide), out, rtol=1e-12, atol=1e-13)
    for b in range(5):
        alone = module(values[b : b + 1], mask[b : b + 1], numbers[b : b + 1])
        torch.testing.assert_close(alone[0], out[b], rtol=1e-12, atol=1e-13)
    garbage = torch.where(mask[..., None], values, torch.full_like(values, 1e3))
    torch.testing.assert_close(module(garbage, mask, numbers), out, rtol=1e-12, atol=1e-13)


def test_the_grus_order_does_not_depend_on_rounding():
    module = Aggregation("gru", 4).double()
    values, mask, numbers = _case(2)
    out = module(values, mask, numbers)
    torch.testing.assert_close(module(values * (1 + 1e-9), mask, numbers), out, rtol=1e-7, atol=1e-8)


def test_shuffled_keys_are_distinct_and_unordered():
    keys = shuffled(torch.arange(2000))
    assert len(keys.unique()) == 2000
    rising = (keys.diff() > 0).double().mean()
    assert 0.4 < float(rising) < 0.6


@pytest.mark.parametrize("how", KINDS)
@pytest.mark.parametrize(("batch", "items"), [(0, 3), (3, 0), (0, 0)])
def test_nothing_to_aggregate_keeps_every_parameter_in_the_graph(how, batch, items):
    module = Aggregation(how, 4)
    values = torch.randn(batch, items, 4, requires_grad=True)
    out = module(values, torch.ones(batch, items, dtype=torch.bool), torch.ones(batch, items, dtype=torch.long))
    assert out.shape == (batch, 4)
    assert not out.any()
    if how in ("gru", "attention"):
        out.sum().backward()
        assert all(p.grad is not None and not p.grad.any() for p in module.parameters())
