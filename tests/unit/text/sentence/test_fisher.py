"""Fisher vectors against a naive loop and against the gradient of the log-likelihood."""

import math

import numpy as np
import pytest
import torch

from vse.text.sentence.bags import Bags, bags_of, mean_vectors
from vse.text.sentence.fisher import fisher_vectors, normalised, raw_fisher_vectors
from vse.text.sentence.mixture import Mixture

K, D = 3, 4
RAGGED = [[0, 2, 2, 5], [], [1], [3, 4, 5, 0, 0, 6]]


@pytest.fixture(params=["gaussian", "laplacian", "hybrid"])
def mixture(request):
    rng = np.random.default_rng(1)
    share = {"gaussian": 0.0, "laplacian": 1.0, "hybrid": 0.5}[request.param]
    weights = rng.uniform(0.2, 1, size=K)
    return Mixture(
        weights / weights.sum(),
        rng.normal(size=(K, D)),
        rng.uniform(0.5, 1.5, size=(K, D)),
        rng.random((K, D)) < share,
    )


@pytest.fixture
def vectors():
    return np.random.default_rng(2).normal(size=(7, D)).astype(np.float32)


def bags(rows=RAGGED):
    starts = np.cumsum([0, *map(len, rows)])
    return Bags(np.array([k for row in rows for k in row], dtype=np.int64), starts)


def raw(mixture, vectors, given=None):
    shares = mixture.responsibilities(vectors.astype(np.float64))
    return raw_fisher_vectors(mixture, vectors, shares, given or bags())


def log_likelihood(x, weights, location, scale, laplacian):
    """Mean log-likelihood of tokens (T, D), in torch."""
    distance = (x[:, None] - location) / scale
    normal = -0.5 * distance**2 - 0.5 * math.log(2 * math.pi) - torch.log(scale)
    laplace = -distance.abs() - math.log(2) - torch.log(scale)
    return torch.logsumexp(torch.log(weights) + torch.where(laplacian, laplace, normal).sum(2), dim=1).mean()


def test_is_the_gradient_divided_by_the_root_of_the_fisher_information(mixture, vectors):
    found = raw(mixture, vectors).reshape(len(RAGGED), 2, K, D)
    weights, laplacian = torch.from_numpy(mixture.weights), torch.from_numpy(mixture.laplacian)
    for caption, row in enumerate(RAGGED):
        if not row:
            assert (found[caption] == 0).all()
            continue
        location = torch.from_numpy(mixture.location).requires_grad_()
        scale = torch.from_numpy(mixture.scale).requires_grad_()
        log_likelihood(torch.from_numpy(vectors[row]).double(), weights, location, scale, laplacian).backward()
        assert location.grad is not None
        assert scale.grad is not None
        w = weights[:, None]
        by_location = location.grad / torch.sqrt(w / scale.detach() ** 2)
        by_scale = scale.grad / torch.sqrt(torch.where(laplacian, 1.0, 2.0) * w / scale.detach() ** 2)
        np.testing.assert_allclose(found[caption, 0], by_location.numpy(), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found[caption, 1], by_scale.numpy(), rtol=1e-5, atol=1e-6)


def test_is_the_sum_written_out(mixture, vectors):
    found = raw(mixture, vectors).reshape(len(RAGGED), 2, K, D)
    shares = mixture.responsibilities(vectors.astype(np.float64))
    for caption, row in enumerate(RAGGED):
        for k in range(K):
            for d in range(D):
                place = scale = 0.0
                for token in row:
                    z = (vectors[token, d] - mixture.location[k, d]) / mixture.scale[k, d]
                    if mixture.laplacian[k, d]:
                        place += shares[token, k] * np.sign(z)
                        scale += shares[token, k] * (abs(z) - 1)
                    else:
                        place += shares[token, k] * z
                        scale += shares[token, k] * (z * z - 1) / math.sqrt(2)
                norm = max(len(row), 1) * math.sqrt(mixture.weights[k])
                assert found[caption, 0, k, d] == pytest.approx(place / norm, abs=1e-5)
                assert found[caption, 1, k, d] == pytest.approx(scale / norm, abs=1e-5)


def test_the_information_is_that_of_many_words_drawn_from_one_component():
    """Of words drawn from the model the normalised gradient has unit variance: the diagonal information is right."""
    rng = np.random.default_rng(0)
    for laplacian in (False, True):
        mixture = Mixture(np.ones(1), np.full((1, 1), 2.0), np.full((1, 1), 3.0), np.full((1, 1), laplacian))
        draw = rng.laplace if laplacian else rng.normal
        x = draw(2.0, 3.0, size=(40_000, 1)).astype(np.float32)
        single = bags([[k] for k in range(len(x))])
        found = raw(mixture, x, single)
        np.testing.assert_allclose(found.mean(0), 0, atol=0.03)
        np.testing.assert_allclose(found.var(0), 1, atol=0.05)


def test_order_repetition_of_the_whole_and_neighbours_change_nothing(mixture, vectors):
    one = raw(mixture, vectors, bags([[0, 2, 5]]))
    np.testing.assert_allclose(raw(mixture, vectors, bags([[5, 0, 2]])), one, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(raw(mixture, vectors, bags([[0, 2, 5] * 2])), one, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(raw(mixture, vectors, bags([[1], [0, 2, 5], [6]]))[1:2], one, rtol=1e-4, atol=1e-6)


def test_power_and_length(mixture, vectors):
    shares = mixture.responsibilities(vectors.astype(np.float64))
    found = fisher_vectors(mixture, vectors, shares, bags(), 0.5)
    lengths = np.linalg.norm(found, axis=1)
    np.testing.assert_allclose(lengths, [1, 0, 1, 1], atol=1e-6)
    z = raw(mixture, vectors)[0]
    signed = np.array([math.copysign(math.sqrt(abs(v)), v) for v in z])
    np.testing.assert_allclose(found[0], signed / np.linalg.norm(signed), rtol=1e-5)
    np.testing.assert_allclose(normalised(z[None], 1.0)[0], z / np.linalg.norm(z), rtol=1e-5)


def test_bags_and_means(vectors):
    row = {"a": 0, "dog": 1, "'s": 2}
    found = bags_of(["A dog's DOG", "", "unknown words", "a"], row)
    assert found.rows.tolist() == [0, 1, 2, 1, 0]
    assert found.starts.tolist() == [0, 4, 4, 4, 5]
    means = mean_vectors(found, vectors)
    np.testing.assert_allclose(means[0], vectors[[0, 1, 2, 1]].mean(0), rtol=1e-6)
    assert (means[1:3] == 0).all()
    part = found.slice(2, 4)
    assert (len(part), part.rows.tolist(), part.starts.tolist()) == (2, [0], [0, 0, 1])
