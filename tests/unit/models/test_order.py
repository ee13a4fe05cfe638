"""Order similarity against loops over pairs and coordinates, value and gradient, in blocks of any size."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.synthetic import make_family, make_objective, synthetic
from vse.models import order
from vse.models.order import order_scores, order_violation

DATA = synthetic(seed=3)


def _loop(images, captions, form):
    rows = []
    for image in images:
        row = []
        for caption in captions:
            excess = [(s - v) ** 2 for s, v in zip(caption, image, strict=True) if s > v]
            total = torch.stack(excess).sum() if excess else 0 * (image.sum() + caption.sum())
            row.append(-(total.sqrt() if form == "root" and excess else total))
        rows.append(torch.stack(row))
    return torch.stack(rows)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(["squared", "root"]), st.sampled_from([1, 9, 2**20]))
def test_values_and_gradients_against_loops(seed, form, at_once):
    torch.manual_seed(seed)
    images = torch.randn(int(torch.randint(1, 5, ())), 3, dtype=torch.float64).requires_grad_()
    captions = torch.randn(int(torch.randint(1, 6, ())), 3, dtype=torch.float64).requires_grad_()
    weight = torch.randn(len(images), len(captions), dtype=torch.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(order, "AT_ONCE", at_once)
        ours = order_scores(images, captions, form)
        found = torch.autograd.grad((ours * weight).sum(), [images, captions])
    naive = _loop(images, captions, form)
    torch.testing.assert_close(ours, naive, rtol=1e-12, atol=1e-12)
    expected = torch.autograd.grad((naive * weight).sum(), [images, captions])
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("form", ["squared", "root"])
def test_a_kept_order_scores_nought_with_no_gradient(form):
    captions = torch.rand(3, 4, dtype=torch.float64).requires_grad_()
    images = (captions.detach() + 0.1).requires_grad_()
    scores = order_scores(images, captions, form)
    assert not scores.diagonal().any()
    gradients = torch.autograd.grad(scores.diagonal().sum(), [images, captions])
    assert not any(gradient.any() for gradient in gradients)  # neither a pull nor a NaN


def test_short_and_long_numbers_meet_and_nothing_is_made_of_nothing():
    images, captions = torch.randn(2, 3).bfloat16(), torch.randn(4, 3)
    torch.testing.assert_close(order_violation(images, captions), order_violation(images.float(), captions))
    assert order_violation(torch.zeros(0, 3), captions).shape == (0, 4)
    assert order_violation(captions, torch.zeros(0, 3)).shape == (4, 0)


@pytest.mark.parametrize("absolute", [True, False])
@pytest.mark.parametrize("form", ["squared", "root"])
def test_the_family_scores_its_codes_which_are_vsepp_s(absolute, form):
    family = make_family("order", DATA.context, absolute=absolute, form=form)
    plain = make_family("vsepp", DATA.context)
    plain.load_state_dict(family.state_dict())
    batch = DATA.collator(family, make_objective("order"))(np.arange(len(DATA)), 0)
    for encode in ("encode_images", "encode_captions"):
        (found,), (expected,) = (getattr(f, encode)(batch).values() for f in (family, plain))
        assert torch.equal(found, expected.abs() if absolute else expected)
        assert not absolute or not (found < 0).any()
    codes = {**family.encode_images(batch), **family.encode_captions(batch)}
    torch.testing.assert_close(family.scores(codes, codes), _loop(codes["images"], codes["captions"], form))
