"""Losses of codes and reconstructions against loops and closed forms, values and gradients."""

import math

import pytest
import torch

from vse.objectives import jwae as losses


def _random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


def _same(found, expected, *inputs):
    torch.testing.assert_close(found, expected)
    for one, other in zip(torch.autograd.grad(found, inputs), torch.autograd.grad(expected, inputs), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("num", [1, 5])
@pytest.mark.parametrize("norm", ["l1", "l2", "squared"])
def test_reconstruction_is_a_sum_of_norms(norm, num):
    x, y = _random(num, 3), _random(num, 3, seed=1)
    total = torch.zeros((), dtype=torch.float64)
    for a, b in zip(x, y, strict=True):
        if norm == "l1":
            total = total + sum(abs(p - q) for p, q in zip(a, b, strict=True))
        else:
            length = torch.sqrt(sum(((p - q) ** 2 for p, q in zip(a, b, strict=True)), torch.zeros(())))
            total = total + (length if norm == "l2" else length**2)
    _same(losses.reconstruction(x, y, norm), total, x, y)


@pytest.mark.parametrize(("norm", "share"), [("l1", 1 / 3), ("l2", 1 / math.sqrt(3)), ("squared", 1 / 3)])
def test_errors_may_be_means_over_dimensions(norm, share):
    x, y = _random(5, 3), _random(5, 3, seed=1)
    _same(losses.reconstruction(x, y, norm, mean=True), share * losses.reconstruction(x, y, norm), x, y)
    _same(losses.squared_distance(x, y, mean=True), losses.squared_distance(x, y) / 3, x, y)


@pytest.mark.parametrize("norm", ["l1", "l2", "squared"])
def test_a_perfect_reconstruction_has_no_loss_and_a_finite_gradient(norm):
    x = _random(4, 3)
    y = x.detach().clone().requires_grad_()
    loss = losses.reconstruction(x, y, norm)
    assert float(loss.detach()) == pytest.approx(0, abs=1e-7)
    assert not torch.autograd.grad(loss, y)[0].any()


def test_next_words_cost_their_negative_log_probability():
    logits, words = _random(6, 5), torch.tensor([0, 4, 4, 2, 1, 3])
    total = torch.zeros((), dtype=torch.float64)
    for row, word in zip(logits, words, strict=True):
        total = total - torch.log(torch.exp(row[word]) / torch.exp(row).sum())
    _same(losses.next_word_loss(logits, words), total, logits)


def test_squared_distance_counts_known_pairs_only():
    v, t, paired = _random(5, 3), _random(5, 3, seed=1), torch.tensor([True, False, True, True, False])

    def over(rows):
        return torch.stack([(v[k, d] - t[k, d]) ** 2 for k in rows for d in range(3)]).sum()

    _same(losses.squared_distance(v, t), over(range(5)), v, t)
    _same(losses.squared_distance(v, t, paired), over((0, 2, 3)), v, t)


def test_the_adversaries_are_cross_entropies_with_opposite_labels():
    prior, images, captions = _random(4, 2), _random(4, seed=1), _random(4, seed=2)
    d = torch.sigmoid
    told = -(torch.log(d(prior)).sum() + torch.log(1 - d(images)).sum() + torch.log(1 - d(captions)).sum()) / 2
    _same(losses.discriminator_loss(prior, images, captions), told, prior, images, captions)
    _same(losses.generator_loss(images), -torch.log(d(images)).sum(), images)
    undecided = torch.zeros(7, 2), torch.zeros(7), torch.zeros(7)
    assert float(losses.discriminator_loss(*undecided)) == pytest.approx(7 * 2 * math.log(2))


def test_a_good_discriminator_measures_the_divergence():
    """Codes drawn from discrete distributions, logits log P/F: the loss is 2 log 2 − 2 D_JS an item."""
    p, f = torch.tensor([0.5, 0.25, 0.25]), torch.tensor([0.25, 0.25, 0.5])
    counts_prior, counts_codes = (8 * p).long(), (8 * f).long()
    logits = torch.log(p / f)
    prior = logits.repeat_interleave(counts_prior)  # eight samples of the prior: four items
    codes = logits.repeat_interleave(counts_codes)
    middle = (p + f) / 2
    divergence = 0.5 * (p * torch.log(p / middle)).sum() + 0.5 * (f * torch.log(f / middle)).sum()
    found = losses.discriminator_loss(prior.view(4, 2), codes[:4], codes[4:]) / 4
    assert float(found) == pytest.approx(float(2 * math.log(2) - 2 * divergence), rel=1e-6)


def test_gaussian_divergence_is_torchs():
    mean, log_variance = _random(4, 3), _random(4, 3, seed=1)
    posterior = torch.distributions.Normal(mean, (log_variance / 2).exp())
    expected = torch.distributions.kl_divergence(posterior, torch.distributions.Normal(0.0, 1.0)).sum()
    _same(losses.gaussian_divergence(mean, log_variance), expected, mean, log_variance)


@pytest.mark.parametrize("num", [1, 4])
def test_discrepancy_against_a_loop_over_pairs(num):
    v, t = _random(num, 3), _random(num, 3, seed=1)
    codes = torch.cat([v, t])
    width = torch.stack([(a - b).square().sum() for a in codes for b in codes]).mean().detach()

    def kernel(a, b):
        distance = (a - b).square().sum()
        return torch.stack([torch.exp(-distance / (s * width)) for s in losses.SCALES]).mean()

    within = sum(kernel(a, b) for a in v for b in v) + sum(kernel(a, b) for a in t for b in t)
    between = sum(kernel(a, b) for a in v for b in t)
    _same(losses.mean_discrepancy(v, t), (within - 2 * between) / num**2, v, t)


def test_discrepancy_of_alike_sets_is_zero_and_grows_with_their_distance():
    v = _random(6, 3).detach()
    assert float(losses.mean_discrepancy(v, v[torch.randperm(6)])) == pytest.approx(0, abs=1e-12)
    found = [float(losses.mean_discrepancy(v, v + shift)) for shift in (0.5, 1.0, 4.0)]
    assert found == sorted(found)
    assert found[0] > 0.001
    assert float(losses.mean_discrepancy(v[:0], v[:0])) == 0
