"""The bidirectional hinge against two loops; masks; the level of collapse."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vse.objectives.hinge import bidirectional_hinge, excluded_pairs, same_meaning


def _naive(scores, excluded, margin, hardest):
    total = torch.zeros((), dtype=scores.dtype)
    for i in range(len(scores)):
        captions = [margin + scores[i, j] - scores[i, i] for j in range(len(scores)) if j != i and not excluded[i, j]]
        images = [margin + scores[j, i] - scores[i, i] for j in range(len(scores)) if j != i and not excluded[j, i]]
        for costs in (captions, images):
            costs = [cost for cost in costs if cost > 0]
            if costs:
                total = total + (max(costs) if hardest else sum(costs))
    return total


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 8), st.booleans(), st.floats(0, 0.9), st.floats(0, 1))
def test_values_and_gradients_against_loops(seed, size, hardest, share, margin):
    torch.manual_seed(seed)
    scores = torch.randn(size, size, dtype=torch.float64).requires_grad_()
    excluded = torch.rand(size, size) < share
    ours, naive = bidirectional_hinge(scores, excluded, margin, hardest), _naive(scores, excluded, margin, hardest)
    torch.testing.assert_close(ours, naive, rtol=1e-12, atol=1e-12)
    gradient = torch.autograd.grad(ours, scores)[0]
    expected = torch.autograd.grad(naive, scores)[0] if naive.requires_grad else torch.zeros_like(scores)
    torch.testing.assert_close(gradient, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [2, 5, 128])
def test_collapse_level(size):
    scores, none = torch.full((size, size), 0.73, dtype=torch.float64), torch.zeros(size, size, dtype=torch.bool)
    assert float(bidirectional_hinge(scores, none, 0.2, hardest=True)) == pytest.approx(2 * size * 0.2, rel=1e-14)
    summed = float(bidirectional_hinge(scores, none, 0.2, hardest=False))
    assert summed == pytest.approx(2 * size * (size - 1) * 0.2, rel=1e-12)


def test_without_any_negative_the_loss_is_zero_and_has_a_gradient():
    scores = torch.randn(3, 3, requires_grad=True)
    loss = bidirectional_hinge(scores, torch.ones(3, 3, dtype=torch.bool), 0.2, hardest=True)
    loss.backward()
    assert float(loss.detach()) == 0
    assert scores.grad is not None
    assert not scores.grad.any()


def test_same_meaning():
    images, texts = torch.tensor([0, 0, 1, 2]), torch.tensor([5, 6, 5, 7])
    expected = [[True, True, True, False], [True, True, False, False], [True, False, True, False]]
    assert same_meaning(images[:3], texts[:3], images, texts).tolist() == expected


def test_excluded_pairs_of_every_mask():
    images, texts = torch.tensor([2, 0, 2]), torch.tensor([5, 5, 6])
    truth = torch.tensor([[True, False, False], [False, True, False], [True, False, False]])
    gathered = {"image_group": images, "text_group": texts, "true_images": truth}
    same = same_meaning(images, texts, images, texts)
    assert torch.equal(excluded_pairs(gathered, "same"), same)
    assert not excluded_pairs(gathered, "none").any()
    found = excluded_pairs(gathered, "truth")
    for i in range(3):
        for j in range(3):  # image i is no negative of caption j if caption j is true of it
            assert bool(found[i, j]) == (bool(same[i, j]) or bool(truth[j, images[i]]))
