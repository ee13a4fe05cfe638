"""PrefixGRU against torch.nn.GRU on packed sequences: values, and gradients of table and parameters."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from vse.models.gru import PrefixGRU, WordStates


def _oracle(module, table, sequences, lengths):
    packed = nn.utils.rnn.pack_padded_sequence(table[sequences], lengths, batch_first=True, enforce_sorted=False)
    return module.gru(packed)[1][0]


def _both(module, table, sequences, lengths, weight):
    found = []
    for route in (module, lambda *args: _oracle(module, *args)):
        module.zero_grad()
        leaf = table.clone().requires_grad_()
        codes = route(leaf, sequences, lengths)
        (codes * weight).sum().backward()
        found.append([codes.detach(), leaf.grad, *(p.grad.clone() for p in module.parameters())])
    return found


@pytest.mark.seconds
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 7), st.integers(1, 5))
def test_values_and_gradients(seed, batch, longest, words):
    torch.manual_seed(seed)
    module = PrefixGRU(3, 4).double()
    table = torch.randn(words, 3, dtype=torch.float64)
    sequences = torch.randint(words, (batch, longest))  # few words: many shared prefixes
    lengths = torch.randint(1, longest + 1, (batch,))
    for ours, torchs in zip(*_both(module, table, sequences, lengths, torch.randn(batch, 4).double()), strict=True):
        torch.testing.assert_close(ours, torchs, rtol=1e-10, atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 6), st.integers(1, 4))
def test_all_states_of_both_directions_equal_a_bidirectional_gru(seed, batch, longest, words):
    torch.manual_seed(seed)
    module, oracle = WordStates(3, 4).double(), nn.GRU(3, 4, batch_first=True, bidirectional=True).double()
    weights = dict(oracle.named_parameters())
    with torch.no_grad():
        for end, part in (("", module.forward_gru), ("_reverse", module.backward_gru)):
            for name, weight in part.gru.named_parameters():
                weights[name + end].copy_(weight)
    table = torch.randn(words, 3, dtype=torch.float64)
    sequences, lengths = torch.randint(words, (batch, longest)), torch.randint(1, longest + 1, (batch,))
    weight, found = torch.randn(batch, longest, 4, dtype=torch.float64), []
    for route in ("ours", "torch's"):
        leaf = table.clone().requires_grad_()
        if route == "ours":
            states = module(leaf, sequences, lengths)
        else:
            packed = nn.utils.rnn.pack_padded_sequence(leaf[sequences], lengths, batch_first=True, enforce_sorted=False)
            both = nn.utils.rnn.pad_packed_sequence(oracle(packed)[0], batch_first=True, total_length=longest)[0]
            states = (both[..., :4] + both[..., 4:]) / 2
        (states * weight).sum().backward()
        found.append((states.detach(), leaf.grad))
    for ours, torchs in zip(*found, strict=True):
        torch.testing.assert_close(ours, torchs, rtol=1e-10, atol=1e-12)
    for end, part in (("", module.forward_gru), ("_reverse", module.backward_gru)):
        for name, parameter in part.gru.named_parameters():
            torch.testing.assert_close(parameter.grad, weights[name + end].grad, rtol=1e-10, atol=1e-12)


def test_equal_prefixes_nested_sequences_and_repeats():
    torch.manual_seed(0)
    module, table = PrefixGRU(3, 4).double(), torch.randn(5, 3, dtype=torch.float64)
    sequences = torch.tensor([[1, 2, 3, 4], [1, 2, 3, 0], [1, 2, 0, 0], [1, 2, 3, 4], [4, 2, 3, 4], [1, 0, 0, 0]])
    lengths = torch.tensor([4, 3, 2, 4, 4, 1])
    for ours, torchs in zip(*_both(module, table, sequences, lengths, torch.randn(6, 4).double()), strict=True):
        torch.testing.assert_close(ours, torchs, rtol=1e-10, atol=1e-12)
    order = torch.tensor([3, 5, 0, 2, 4, 1])
    codes = module(table, sequences, lengths)
    torch.testing.assert_close(module(table, sequences[order], lengths[order]), codes[order], rtol=1e-12, atol=1e-14)
    # What lies behind a sequence's end has no influence at all.
    noise = torch.where(torch.arange(4)[None] < lengths[:, None], sequences, torch.randint(5, (6, 4)))
    assert torch.equal(module(table, noise, lengths), codes)


@pytest.mark.parametrize("time", [0, 3])
def test_an_empty_batch_keeps_every_parameter_in_the_graph(time):
    module, table = PrefixGRU(3, 4), torch.randn(2, 3, requires_grad=True)
    codes = module(table, torch.zeros(0, time, dtype=torch.long), torch.zeros(0, dtype=torch.long))
    assert codes.shape == (0, 4)
    codes.sum().backward()
    for parameter in (table, *module.parameters()):
        assert parameter.grad is not None
        assert not parameter.grad.any()
