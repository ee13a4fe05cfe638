"""Statistics of codes against loops and numpy; and, slowly, that the Gaussian regulariser of jWAE does its work."""

import math

import numpy as np
import pytest
import torch

from tests.levels import slow_but
from tests.synthetic import make_family, synthetic
from vse.errors import Diverged
from vse.evaluation.codes import encode_images
from vse.evaluation.gaussianity import (
    _numbered,
    accuracy,
    fresh_accuracy,
    gaussian_numbers,
    gaussianity,
    normal_distance,
)
from vse.models.family import Context
from vse.models.jwae import JWAE
from vse.objectives.jwae import JWAELoss
from vse.training.config import OptimConfig
from vse.training.step import Stepper


def _normal(num, dim, seed=0):
    return torch.randn(num, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_distance_is_the_largest_gap_between_distributions():
    codes = _normal(7, 3) * 2 - 0.5
    for dim, found in enumerate(normal_distance(codes)):
        values, gaps = sorted(codes[:, dim].tolist()), []
        for k, value in enumerate(values):
            exact = 0.5 * (1 + math.erf(value / math.sqrt(2)))
            gaps += [abs(exact - k / 7), abs((k + 1) / 7 - exact)]
        assert float(found) == pytest.approx(max(gaps), rel=1e-12)


def test_moments_are_numpys():
    codes = _normal(50, 4) * torch.tensor([1.0, 2.0, 0.5, 3.0]) + torch.tensor([0.0, 1.0, -2.0, 0.5])
    x = codes.numpy()
    z = (x - x.mean(0)) / x.std(0)
    found = gaussianity(codes)
    assert found.mean == pytest.approx(np.abs(x.mean(0)).mean())
    assert found.std == pytest.approx(x.std(0).mean())
    assert found.std_spread == pytest.approx(x.std(0).std())
    assert found.skewness == pytest.approx(np.abs((z**3).mean(0)).mean())
    assert found.kurtosis == pytest.approx((z**4).mean())
    assert found.norm == pytest.approx(np.linalg.norm(x, axis=1).mean() / 2)
    correlations = np.corrcoef(x.T)
    assert found.correlation == pytest.approx(np.abs(correlations[~np.eye(4, dtype=bool)]).mean())
    assert found.numbers()["std"] == found.std


def test_samples_of_the_prior_look_like_it_and_others_do_not():
    found = gaussianity(_normal(4000, 8))
    assert found.mean < 0.03
    assert found.std == pytest.approx(1, abs=0.03)
    assert found.std_spread < 0.03
    assert found.kurtosis == pytest.approx(3, abs=0.2)
    assert found.ks_median < 0.03
    assert found.ks_shape < 0.02
    assert found.ks_rejected <= 0.25
    assert found.norm == pytest.approx(1, abs=0.05)
    wide, unit = gaussianity(3 * _normal(4000, 8)), gaussianity(torch.nn.functional.normalize(_normal(4000, 8), dim=1))
    assert wide.ks_median > 0.1 > 0.03 > wide.ks_shape  # its shape is normal, its width is not
    assert unit.norm == pytest.approx(1 / math.sqrt(8))
    assert unit.ks_median > 0.2
    assert wide.ks_rejected == unit.ks_rejected == 1


@pytest.mark.parametrize("bad", [math.nan, -math.inf])
def test_codes_that_are_not_finite_are_refused(bad):
    codes = _normal(20, 3)
    codes[7, 1] = bad
    with pytest.raises(Diverged, match="codes are NaN or infinite, so the training has diverged"):
        gaussianity(codes)


def test_a_constant_dimension_is_far_from_normal():
    found = gaussianity(torch.cat([_normal(20, 1), torch.zeros(20, 2)], dim=1))
    assert found.ks_shape == 1
    assert found.ks_rejected == pytest.approx(2 / 3)
    assert all(math.isfinite(value) for value in found.numbers().values())


def test_accuracy_counts_both_sides():
    codes = torch.full((50, 3), 9.0)
    assert accuracy(lambda z: 5 - z[:, 0], codes) == 1.0
    assert accuracy(lambda z: z[:, 0] - 5, codes) == 0.0
    assert accuracy(lambda z: torch.ones(len(z)), codes) == 0.5
    assert accuracy(lambda z: 5 - z[:, 0], codes, judge_prior=lambda z: -torch.ones(len(z))) == 0.5


def test_a_fresh_discriminator_tells_what_differs_and_guesses_what_does_not():
    assert fresh_accuracy(_normal(600, 4) + 3, steps=60) > 0.95
    assert 0.4 < fresh_accuracy(_normal(600, 4), steps=60) < 0.6
    state = torch.random.get_rng_state()
    assert fresh_accuracy(_normal(60, 4), steps=2) == fresh_accuracy(_normal(60, 4), steps=2)
    assert torch.equal(state, torch.random.get_rng_state())


@pytest.mark.seconds
def test_captions_of_one_image_do_not_give_each_other_away():
    """Five captions an image, all of the image's own code, a sample of the prior: nothing tells them from it."""
    codes, image = _normal(200, 128).repeat(5, 1), torch.arange(200).repeat(5)
    assert fresh_accuracy(codes) > 0.8
    assert 0.45 < fresh_accuracy(codes, image) < 0.55
    assert fresh_accuracy(codes[:200], image[:200], steps=2) == fresh_accuracy(codes[:200], steps=2)


@pytest.mark.seconds
@pytest.mark.parametrize("name", slow_but(["jwae", "jwae_scan"], "jwae"))
def test_numbers_of_a_family_are_those_of_its_codes_in_blocks_of_any_size(name, monkeypatch):
    data = synthetic(seed=5, images=9)
    family = make_family(name, data.context).eval()
    judge, samples = family.discriminator, _normal(9, 7)
    with torch.no_grad():
        judge.layers[-1].bias.sub_(judge.logits(samples).median())  # it says one thing and the other
    whole = gaussian_numbers(family, data.examples)
    monkeypatch.setattr("vse.evaluation.codes.IMAGES_AT_ONCE", 4)
    monkeypatch.setattr("vse.evaluation.codes.CAPTIONS_AT_ONCE", 5)
    parts = gaussian_numbers(family, data.examples)
    for side, numbers in whole.items():
        assert parts[side] == pytest.approx(numbers)
    codes = encode_images(family, data.examples.features[family.inputs.image], _numbered(family.image_codes))["codes"]
    assert len(codes) == data.examples.num_images
    assert whole["images"]["mean"] == pytest.approx(codes.mean(0).abs().mean().item())
    samples = torch.randn(codes.shape, generator=torch.Generator().manual_seed(0)).double()
    with torch.inference_mode():
        shares = [(judge(codes) < 0).double().mean(), (judge.logits(samples) > 0).double().mean()]
    assert 0 < shares[1] < 1
    assert whole["images"]["own_accuracy"] == pytest.approx(float(sum(shares)) / 2)


@pytest.mark.seconds
def test_codes_are_not_normalised_and_a_family_without_a_discriminator_has_none_of_its_own():
    data = synthetic(seed=5, images=9)
    free = make_family("jwae", data.context, regularizer="none").eval()
    found = gaussian_numbers(free, data.examples)
    assert not any("own_accuracy" in numbers for numbers in found.values())
    with torch.no_grad():
        free.encode_image[-1].weight.mul_(10)
        free.encode_image[-1].bias.mul_(10)
    larger = gaussian_numbers(free, data.examples)
    assert larger["images"]["norm"] == pytest.approx(10 * found["images"]["norm"])
    assert larger["captions"]["norm"] == found["captions"]["norm"]


class Trained:
    """A small jWAE-MSE with the published λ's on codes that are nothing like a Gaussian: corners of a cube."""

    def __init__(self, steps=2000, **model):
        torch.manual_seed(0)
        context = Context(10, {"pooled": 12}, sentence_dim=10)
        config = JWAE.Config(dim=6, hidden_dim=64, text="sentence", text_scale="none", discriminator_dim=64, **model)
        self.family = JWAE(config, context, "none")
        self.before = self.measure()
        objective = JWAELoss(
            JWAELoss.Config(match="mse", lambda1=1, lambda2=1, lambda3=0.2, lambda4=0.2, errors="mean", norm="squared")
        )
        stepper = Stepper(self.family, self.family, objective, OptimConfig(lr=1e-3), "float32")
        (images, texts), generator = self._data(2000, 1), torch.Generator().manual_seed(0)
        for step in range(steps):
            stepper.set_rate(1e-3 * (1 - step / steps))  # the two stop circling each other
            rows = torch.randint(2000, (128,), generator=generator)
            draw = torch.randint(-(2**62), 2**62, (128,), generator=generator)
            batch = {"pooled": images[rows], "sentence": texts[rows], "draw": draw, "image_group": rows}
            self.losses = stepper.step(batch | {"text_group": rows}, 0, step)
        self.after = self.measure()

    @staticmethod
    def _data(num, seed):
        maps, rng = np.random.default_rng(0), np.random.default_rng(seed)
        to_image, to_text = maps.normal(size=(6, 12)) / 2.4, maps.normal(size=(6, 10)) / 2.4
        corners = np.sign(rng.normal(size=(num, 6))) * (1 + 0.3 * rng.random((num, 6)))
        texts = corners @ to_text + 0.1 * rng.normal(size=(num, 10))
        return torch.from_numpy(corners @ to_image).float(), torch.from_numpy(texts).float()

    @torch.no_grad()
    def codes(self):
        images, texts = self._data(1000, 2)
        batch = {"pooled": images, "sentence": texts}
        return self.family.image_codes(batch)[0], self.family.caption_codes(batch)[0]

    def measure(self):
        return [gaussianity(codes) for codes in self.codes()]


@pytest.mark.slow
def test_the_regulariser_makes_codes_gaussian():
    regularised, ablation = Trained(), Trained(regularizer="none")
    for before, after, without in zip(regularised.before, regularised.after, ablation.after, strict=True):
        assert after.ks_median < 0.6 * without.ks_median < before.ks_median
        assert abs(after.std**2 - 1) < 0.5 * abs(without.std**2 - 1)
        assert abs(after.norm - 1) < 0.5 * abs(without.norm - 1)
    judge = regularised.family.discriminator
    for codes, free in zip(regularised.codes(), ablation.codes(), strict=True):
        assert accuracy(judge, codes) < 0.75
        assert fresh_accuracy(codes) < fresh_accuracy(free)
    assert float(regularised.losses["discriminator"]) / 128 > 0.8 * 2 * math.log(2)


@pytest.mark.slow
def test_it_cannot_on_unit_vectors_as_in_the_released_code():
    released = Trained(discriminator_codes="unit", discriminator_layers=2, steps=600)
    judge = released.family.discriminator
    for codes in released.codes():
        assert accuracy(judge, codes, judge_prior=judge.logits) > 0.9
