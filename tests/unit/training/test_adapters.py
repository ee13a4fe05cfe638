"""LoRA: the layers' output and gradient by hand, what is trained, merged weights, and files that do not fit."""

import re
from typing import Any

import pytest
import timm
import torch
from torch import nn

from tests.unit.features.test_gradient_checkpointing import SMALL_VIT
from vse.errors import InputError
from vse.training.adapters import adapter_state, add_adapters, load_adapters, merged_state


def make_network() -> nn.Module:
    torch.manual_seed(0)
    return timm.create_model("vit_tiny_patch16_224", num_classes=0, **SMALL_VIT).eval()


def adapted(rank: int = 3, alpha: float = 6.0, seed: int = 0) -> nn.Module:
    network = make_network()
    add_adapters(network, rank, alpha, seed)
    return network


def disturb(network: nn.Module) -> None:
    """Values of B other than zero."""
    generator = torch.Generator().manual_seed(2)
    for name, value in network.named_parameters():
        if "lora_B" in name:
            value.data = torch.randn(value.shape, generator=generator, dtype=value.dtype) * 0.3


@pytest.mark.parametrize(("rank", "alpha"), [(1, 1.0), (3, 6.0), (4, 0.5)])
def test_a_layer_is_its_weights_plus_a_product_of_low_rank(rank: int, alpha: float) -> None:
    """Value and gradients of Hu et al. (2022), equation 3: h = W x + (alpha / r) B A x."""
    torch.manual_seed(1)
    plain = nn.Sequential(nn.Linear(5, 7)).double()
    network = nn.Sequential(nn.Linear(5, 7)).double()
    network.load_state_dict(plain.state_dict())
    add_adapters(network, rank, alpha, seed=4)
    network.double()
    disturb(network)
    layer: Any = network[0]
    a, b = (layer.get_submodule(f"lora_{which}.default").weight for which in "AB")
    assert a.shape == (rank, 5)
    assert b.shape == (7, rank)
    x = torch.randn(3, 2, 5, dtype=torch.float64)
    found = network(x)
    found.square().sum().backward()

    a_by_hand, b_by_hand = (value.detach().clone().requires_grad_() for value in (a, b))
    expected = plain(x).detach() + alpha / rank * (x @ a_by_hand.T @ b_by_hand.T)
    expected.square().sum().backward()
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(a.grad, a_by_hand.grad)
    torch.testing.assert_close(b.grad, b_by_hand.grad)
    assert layer.base_layer.weight.grad is None


def test_adapters_change_nothing_at_first_and_belong_to_the_seed() -> None:
    x = torch.randn(2, 3, 32, 32)
    one, same, other = adapted(seed=1), adapted(seed=1), adapted(seed=2)
    assert torch.equal(one(x), make_network()(x))
    first, second, third = (adapter_state(each) for each in (one, same, other))
    assert len(first) == 2 * 4 * SMALL_VIT["depth"]
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert not all(torch.equal(first[key], third[key]) for key in first)
    layer = nn.Sequential(nn.Linear(2, 2))
    before = torch.get_rng_state()
    add_adapters(layer, 1, 1.0, 0)
    assert torch.equal(before, torch.get_rng_state())


def test_merged_weights_compute_the_same_without_adapters() -> None:
    network, plain = adapted(), make_network()
    disturb(network)
    x = torch.randn(2, 3, 32, 32)
    found = network(x)
    assert (found - plain(x)).abs().max() > 0.1
    merged = merged_state(network)
    plain.load_state_dict(merged)
    torch.testing.assert_close(plain(x), found, atol=1e-4, rtol=1e-4)
    again = adapted(seed=9)
    load_adapters(again, adapter_state(network), "file")
    assert torch.equal(again(x), found)


def test_what_does_not_fit_is_refused_in_a_line() -> None:
    network = adapted()
    with pytest.raises(InputError, match=r"file: .*lora_A.* has shape \(2, 24\), expected \(3, 24\)"):
        load_adapters(network, adapter_state(adapted(rank=2)), "file")
    state = adapter_state(network)
    state.pop(next(iter(state)))
    with pytest.raises(InputError, match=r"file: .* is missing; another network wrote it"):
        load_adapters(network, state, "file")
    line = "train.lora_rank=8: this backbone has no linear layers to adapt; use train.lora_rank=0"
    with pytest.raises(InputError, match=re.escape(line)):
        add_adapters(nn.Sequential(nn.Conv2d(3, 4, 3)), 8, 16.0, 0)


def test_the_fused_weights_of_torch_attention_are_left_alone() -> None:
    """Its output layer is read as a weight and not called, so that an adapter there would have no effect."""
    network = nn.TransformerEncoderLayer(8, 2, 16)
    assert add_adapters(network, 2, 4.0, 0) == 2
    assert {name.split(".")[0] for name in adapter_state(network)} == {"linear1", "linear2"}
