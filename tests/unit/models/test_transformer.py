"""The encoder layer against the thesis's formulas head by head, value and gradient; masks."""

import pytest
import torch

from vse.errors import InputError
from vse.models.relational import EncoderLayer, Relational


def _layer(inputs=8, dim=8, heads=2):
    torch.manual_seed(0)
    layer = EncoderLayer(inputs, dim, heads, 5).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape))
    return layer


def _norm(x, module):
    mean, variance = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
    return (x - mean) / (variance + module.eps).sqrt() * module.weight + module.bias


def _loop(layer, items, mask):
    """§2.1, for each set and head apart."""
    out = torch.zeros(*items.shape[:2], layer.out.out_features, dtype=items.dtype)
    dim = layer.out.in_features
    size = dim // layer.heads
    weight = layer.queries_keys_values.weight
    for b in range(len(items)):
        x = items[b][mask[b]]
        normed = _norm(x, layer.before)
        heads = []
        for h in range(layer.heads):
            rows = slice(h * size, (h + 1) * size)
            q, k, v = (normed @ weight[part * dim : (part + 1) * dim][rows].T for part in range(3))
            heads.append(torch.softmax(q @ k.T / size**0.5, 1) @ v)
        z = torch.cat(heads, 1) @ layer.out.weight.T
        z = x + z if x.shape[1] == dim else z
        first, _, last = layer.feed_forward
        hidden = (_norm(z, layer.between) @ first.weight.T + first.bias).relu()
        out[b][mask[b]] = z + hidden @ last.weight.T + last.bias
    return out


@pytest.mark.parametrize(("inputs", "heads"), [(8, 2), (8, 1), (3, 4)])
def test_values_and_gradients_against_the_formulas(inputs, heads):
    layer = _layer(inputs, 8, heads)
    items = torch.randn(3, 5, inputs, dtype=torch.float64).requires_grad_()
    mask = torch.tensor([[1, 1, 1, 1, 1], [0, 1, 1, 0, 1], [1, 0, 0, 0, 0]], dtype=torch.bool)
    weight = torch.randn(3, 5, 8, dtype=torch.float64) * mask[..., None]
    leaves = [items, *layer.parameters()]
    ours, naive = layer(items, mask), _loop(layer, items, mask)
    torch.testing.assert_close(ours * mask[..., None], naive, rtol=1e-10, atol=1e-12)
    found = torch.autograd.grad((ours * weight).sum(), leaves)
    for one, other in zip(found, torch.autograd.grad((naive * weight).sum(), leaves), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)
    torch.testing.assert_close(layer(items), layer(items, torch.ones_like(mask)))


def test_order_goes_through():
    layer, items, order = _layer(), torch.randn(2, 5, 8, dtype=torch.float64), [3, 1, 4, 0, 2]
    torch.testing.assert_close(layer(items[:, order]), layer(items)[:, order])


def test_heads_must_divide_the_dimension():
    with pytest.raises(InputError, match=r"model\.heads=3: must divide model\.dim=8"):
        Relational.requires(Relational.Config(dim=8, heads=3))


def test_bfloat16_autocast():
    layer, items = _layer().float(), torch.randn(2, 5, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        short = layer(items, torch.ones(2, 5, dtype=torch.bool))
    torch.testing.assert_close(short.float(), layer(items), rtol=0.05, atol=0.1)
