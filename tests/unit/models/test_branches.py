"""Two fully connected layers against their formula."""

import pytest
import torch

from vse.models.encoders import two_layers


@pytest.mark.parametrize("num", [0, 3])
def test_two_layers(num):
    torch.manual_seed(0)
    layers, x = two_layers(5, 4, 3), torch.randn(num, 5)
    weight, bias, last_weight, last_bias = layers.parameters()
    torch.testing.assert_close(layers(x), (x @ weight.T + bias).clamp_min(0) @ last_weight.T + last_bias)
