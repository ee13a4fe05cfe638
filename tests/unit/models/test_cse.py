"""The convolutional sentence encoder against loops over windows."""

import numpy as np
import torch
import torch.nn.functional as F

from tests.synthetic import make_family, make_objective, synthetic
from vse.models.cse import CARRY, HighwayConvolution

DATA = synthetic(seed=5, images=6)


def test_a_highway_convolution_is_a_gate_between_content_and_input():
    torch.manual_seed(0)
    layer, mask = HighwayConvolution(3).double(), torch.tensor([[True] * 4, [True, True, False, False]])
    x = torch.randn(2, 4, 3, dtype=torch.float64) * mask[..., None]
    x.requires_grad_()
    expected = torch.zeros(2, 4, 3, dtype=torch.float64)
    weight, bias = layer.window.weight, layer.window.bias
    rows = []
    for b in range(2):
        for t in range(4):
            around = [x[b, t + s] if 0 <= t + s < 4 else torch.zeros(3, dtype=torch.float64) for s in (-1, 0, 1)]
            both = weight @ torch.cat(around) + bias
            gate = torch.sigmoid(both[3:])
            rows.append((gate * both[:3].clamp_min(0) + (1 - gate) * x[b, t]) * mask[b, t])
    expected = torch.stack(rows).view(2, 4, 3)
    found = layer(x, mask)
    torch.testing.assert_close(found, expected)
    one, other = (torch.autograd.grad(y.square().sum(), x, retain_graph=True)[0] for y in (found, expected))
    torch.testing.assert_close(one, other)


def test_gates_begin_by_passing_on():
    torch.manual_seed(0)
    bias = HighwayConvolution(50).window.bias.detach()
    assert abs(float(bias[50:].mean()) - CARRY) < 0.1
    assert abs(float(bias[:50].mean())) < 0.1


def test_a_code_is_the_largest_response_of_its_layer():
    family = make_family("cse", DATA.context, convolution_dim=4)
    batch = DATA.collator(family, make_objective("cse"))(np.arange(len(DATA)), 1)
    encoded = family(batch)
    assert encoded["middle"].shape == (len(DATA), 2, 7)
    for row, length in enumerate(batch["lengths"].tolist()):
        x = family.enter(family.words(batch["tokens"][row, :length]))[None]
        every = torch.ones(1, length, dtype=torch.bool)
        for k in range(3):
            x = family.layers[k](x, every)
            code = F.normalize(family.codes[k](x[0].amax(0)), dim=0)
            torch.testing.assert_close(encoded["captions"][row] if k == 2 else encoded["middle"][row, k], code)


def test_one_layer_has_nothing_below():
    family = make_family("cse", DATA.context, layers=1)
    batch = DATA.collator(family, make_objective("cse"))(np.arange(5), 1)
    assert family(batch)["middle"].shape == (5, 0, 7)
