"""The logistic loss against a loop over pairs."""

import math

import pytest
import torch

from vse.objectives.logistic import Logistic


def _everyone(num=5, seed=0):
    scores = torch.randn(num, num, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    groups = {"image_group": torch.tensor([0, 0, 1, 2, 3])[:num], "text_group": torch.tensor([0, 1, 2, 0, 3])[:num]}
    bias = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    return {"scores": scores.requires_grad_(), "logistic_bias": bias, **groups}


@pytest.mark.parametrize("paired", [None, [True, True, False, True, True]])
@pytest.mark.parametrize("mask", ["same", "none"])
def test_both_sides_count_alike(mask, paired):
    gathered = _everyone()
    if paired is not None:
        gathered["paired"] = torch.tensor(paired)
    known = paired or [True] * 5
    images, texts = gathered["image_group"].tolist(), gathered["text_group"].tolist()
    positive, negative, count = torch.zeros(()), torch.zeros(()), 0
    for i in range(5):
        for j in range(5):
            logit = gathered["scores"][i, j] + gathered["logistic_bias"]
            if i == j:
                positive = positive + known[i] * torch.log1p(torch.exp(-logit))
            elif known[i] and known[j] and (mask == "none" or (images[i] != images[j] and texts[i] != texts[j])):
                negative, count = negative + torch.log1p(torch.exp(logit)), count + 1
    expected = positive + sum(known) / count * negative
    found = Logistic(Logistic.Config(mask=mask))(gathered, gathered, 0)["sent"]
    torch.testing.assert_close(found, expected)
    inputs = gathered["scores"], gathered["logistic_bias"]
    for one, other in zip(torch.autograd.grad(found, inputs), torch.autograd.grad(expected, inputs), strict=True):
        torch.testing.assert_close(one, other)


def test_no_opinion_costs_two_log_two_a_caption():
    gathered = _everyone() | {"scores": torch.zeros(5, 5), "logistic_bias": torch.zeros(())}
    assert float(Logistic(Logistic.Config(mask="none"))(gathered, gathered, 0)["sent"]) == pytest.approx(
        10 * math.log(2)
    )


@pytest.mark.parametrize("num", [0, 1])
def test_a_batch_without_negatives(num):
    gathered = _everyone(num)
    gathered["image_group"], gathered["text_group"] = torch.arange(num), torch.arange(num)
    found = Logistic(Logistic.Config())(gathered, gathered, 0)["sent"]
    assert found.isfinite()
    assert float(found.detach()) >= 0
