"""Dropout by key: rates, the same masks in any company, and nothing outside of training."""

import pytest
import torch

from vse.models.noise import KeyedDropout, uniform, word_keys


def test_rate_scale_and_gradient():
    dropout = KeyedDropout(0.3, 1)
    rows = torch.ones(400, 5, 7, dtype=torch.float64, requires_grad=True)
    out = dropout(rows, torch.arange(400))
    assert out.unique().tolist() == pytest.approx([0.0, 1 / 0.7])
    assert float((out == 0).double().mean()) == pytest.approx(0.3, abs=0.02)  # 14,000 draws: three deviations are .012
    out.sum().backward()
    assert rows.grad is not None
    assert torch.equal(rows.grad, out.detach())


def test_a_row_keeps_its_mask_in_any_company():
    dropout, rows = KeyedDropout(0.5, 2), torch.randn(9, 6)
    keys = torch.randint(-(2**62), 2**62, (9,))
    order = torch.tensor([4, 0, 7])
    assert torch.equal(dropout(rows, keys)[order], dropout(rows[order], keys[order]))
    assert not torch.equal(dropout(rows, keys), KeyedDropout(0.5, 3)(rows, keys))
    assert dropout(rows[:0], keys[:0]).shape == (0, 6)


@pytest.mark.parametrize("shape", [(3, 70_001), (40, 4_000), (1, 1), (5, 0)])
@pytest.mark.parametrize("p", [0.5, 0.3, 1e-9])
def test_a_unit_is_dropped_where_its_uniform_number_is_below_p(shape: tuple[int, int], p: float) -> None:
    """In blocks or not: the third and fourth shapes are one, the others several."""
    draw = torch.randint(-(2**62), 2**62, shape[:1])
    kept = uniform(draw, shape[1], 5) >= p
    assert torch.equal(KeyedDropout(p, 5)(torch.ones(shape), draw), kept.float() / (1 - p))


def test_words_keep_their_mask_for_a_step_and_no_longer():
    words, more = torch.tensor([3, 5, 8]), torch.tensor([5, 6, 7, 8])
    dropout, ones = KeyedDropout(0.5, 4), torch.ones(4, 64)
    torch.manual_seed(2**63 - 25)  # the largest seeds the loop may draw
    one, other = dropout(ones[:3], word_keys(words)), dropout(ones, word_keys(more))
    assert torch.equal(one[1], other[0])
    assert torch.equal(one[2], other[3])
    assert not torch.equal(other[1], other[2])
    torch.manual_seed(1)
    assert not torch.equal(one, dropout(ones[:3], word_keys(words)))


def test_nothing_is_dropped_outside_of_training():
    rows = torch.randn(3, 2)
    assert KeyedDropout(0.9, 0).eval()(rows, None) is rows
    assert KeyedDropout(0.0, 0)(rows, None) is rows
