"""EM against a naive loop, against the closed form of one component, and its likelihood against itself."""

import numpy as np
import pytest
from scipy import stats

from vse.text.sentence.mixture import Mixture, fit_mixture

RNG = np.random.default_rng(3)
MIXTURE = Mixture(
    weights=np.array([0.5, 0.3, 0.2]),
    location=RNG.normal(size=(3, 4)),
    scale=RNG.uniform(0.5, 2, size=(3, 4)),
    laplacian=RNG.random((3, 4)) < 0.5,
)
X = RNG.normal(size=(9, 4)) * 2


def density(x, mixture, k):
    product = mixture.weights[k]
    for d in range(len(x)):
        family = stats.laplace if mixture.laplacian[k, d] else stats.norm
        product *= family.pdf(x[d], mixture.location[k, d], mixture.scale[k, d])
    return product


def test_densities_and_responsibilities_are_those_of_scipy():
    naive = np.array([[density(x, MIXTURE, k) for k in range(3)] for x in X])
    np.testing.assert_allclose(np.exp(MIXTURE.log_joint(X)), naive, rtol=1e-10)
    np.testing.assert_allclose(MIXTURE.responsibilities(X), naive / naive.sum(1, keepdims=True), rtol=1e-10)


@pytest.mark.parametrize("kind", ["gaussian", "laplacian"])
def test_one_component_is_the_maximum_likelihood_estimate(kind):
    counts = np.array([1, 2, 1, 4, 1, 1, 3, 1, 1], dtype=float)
    tokens = np.repeat(X, counts.astype(int), axis=0)
    family = stats.norm if kind == "gaussian" else stats.laplace
    mixture, _ = fit_mixture(X, counts, 1, kind)
    for d in range(4):
        location, scale = family.fit(tokens[:, d])
        assert mixture.scale[0, d] == pytest.approx(scale)
        assert mixture.location[0, d] == pytest.approx(location)


def test_the_hybrid_takes_the_likelier_kind_in_every_dimension():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=4000), rng.laplace(size=4000), rng.uniform(size=4000)])
    mixture, _ = fit_mixture(x, np.ones(len(x)), 1, "hybrid")
    assert mixture.laplacian[0].tolist() == [False, True, False]
    for d in range(3):
        norm = stats.norm.logpdf(x[:, d], *stats.norm.fit(x[:, d])).sum()
        laplace = stats.laplace.logpdf(x[:, d], *stats.laplace.fit(x[:, d])).sum()
        assert mixture.laplacian[0, d] == (laplace > norm)


@pytest.mark.parametrize("kind", ["gaussian", "laplacian", "hybrid"])
@pytest.mark.parametrize("seed", range(3))
def test_no_step_lowers_the_likelihood_and_the_history_is_its_mean(kind, seed):
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.normal(size=(60, 5)), rng.laplace(size=(50, 5)) + 3])
    counts = rng.integers(1, 30, size=len(x)).astype(float)
    mixture, history = fit_mixture(x, counts, 4, kind, seed=seed, tolerance=0, iterations=40, least_scale=1e-3)
    assert np.all(np.diff(history) > -1e-9)
    assert len(history) > 5
    last = np.average(np.log(np.exp(mixture.log_joint(x)).sum(1)), weights=counts)
    assert last >= history[-1] - 1e-9


def test_counts_stand_for_repeated_tokens():
    """Two steps after the same start: a hand-made EM over all tokens, one by one."""
    counts = np.array([3, 1, 2, 1, 1, 5, 1, 2, 1], dtype=float)
    mixture, _ = fit_mixture(X, counts, 2, "gaussian", seed=1, iterations=6, tolerance=-1, least_scale=1e-6)
    start, _ = fit_mixture(X, counts, 2, "gaussian", seed=1, iterations=5, tolerance=-1, least_scale=1e-6)
    tokens = np.repeat(X, counts.astype(int), axis=0)
    shares = start.responsibilities(tokens)
    for k in range(2):
        mean = sum(s * t for s, t in zip(shares[:, k], tokens, strict=True)) / shares[:, k].sum()
        variance = sum(s * (t - mean) ** 2 for s, t in zip(shares[:, k], tokens, strict=True)) / shares[:, k].sum()
        np.testing.assert_allclose(mixture.location[k], mean)
        np.testing.assert_allclose(mixture.scale[k], np.sqrt(variance))
        assert mixture.weights[k] == pytest.approx(shares[:, k].mean())


@pytest.mark.parametrize("kind", ["gaussian", "hybrid"])
def test_few_or_equal_vectors_and_constant_dimensions_break_nothing(kind):
    for x in (np.zeros((1, 3)), np.ones((4, 3)), np.array([[0.0, 1, 2], [0, 1, 3]])):
        mixture, history = fit_mixture(x, np.ones(len(x)), 30, kind)
        assert len(mixture.weights) <= len(x)
        assert np.isfinite(mixture.log_joint(x)).all()
        assert np.isfinite(history).all()
        assert mixture.weights.sum() == pytest.approx(1)


def test_the_same_seed_gives_the_same_mixture():
    one, two = (fit_mixture(X, np.ones(9), 3, "hybrid", seed=5)[0] for _ in range(2))
    np.testing.assert_array_equal(one.location, two.location)
