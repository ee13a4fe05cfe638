"""The discriminator: its layers, what it sees, whose gradient it gives; the VAE's samples."""

import torch

from vse.models.autoencoder import Discriminator, sampled

DRAW = torch.tensor([11, -5, 2**62, 0, 77])


def _discriminator(**changes):
    torch.manual_seed(0)
    return Discriminator(6, 4, **changes).double()


def test_three_layers_with_leaky_relu_after_the_first_two():
    judge = _discriminator()
    assert sum(p.numel() for p in judge.parameters()) == 6 * 4 + 4 + 4 * 4 + 4 + 4 + 1
    x = torch.randn(3, 6, dtype=torch.float64)
    for row, logit in zip(x, judge(x), strict=True):
        value = row
        for k, layer in enumerate(judge.layers):
            assert isinstance(layer, torch.nn.Linear)
            value = torch.stack([(w * value).sum() + b for w, b in zip(layer.weight, layer.bias, strict=True)])
            value = torch.stack([v if v > 0 else 0.01 * v for v in value]) if k < 2 else value
        torch.testing.assert_close(value[0], logit)


def test_it_sees_codes_as_they_are_unless_asked():
    x = torch.randn(3, 6, dtype=torch.float64)
    assert not torch.allclose(_discriminator()(x), _discriminator()(3 * x))
    published = _discriminator(layers=2, normalize=True)
    torch.testing.assert_close(published(x), published(3 * x))
    assert len(published.layers) == 2


def test_a_fixed_judge_gives_the_same_gradient_to_codes_and_none_to_itself():
    judge = _discriminator()
    x = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    (free,) = torch.autograd.grad(judge(x).sum(), x)
    loss = judge(x, fixed=True).sum()
    loss.backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad, free)
    assert all(p.grad is None for p in judge.parameters())


def test_the_prior_has_two_samples_a_caption_that_belong_to_it():
    judge = _discriminator()
    logits = judge.judge_prior(DRAW)
    assert logits.shape == (5, 2)
    torch.testing.assert_close(judge.judge_prior(DRAW[[3, 1]]), logits[[3, 1]])
    assert logits.unique().numel() == 10


def test_samples_have_the_moments_asked_for():
    mean, spread = torch.tensor([[1.0, -2.0]]), torch.tensor([[0.0, 2.0]])
    draw = torch.arange(20000)
    found = sampled(mean.expand(20000, 2), spread.expand(20000, 2), draw, 912)
    torch.testing.assert_close(found.mean(0), mean[0], rtol=0, atol=0.06)
    torch.testing.assert_close(found.var(0), spread[0].exp(), rtol=0.05, atol=0)
    assert not torch.equal(found, sampled(mean.expand(20000, 2), spread.expand(20000, 2), draw, 913))
