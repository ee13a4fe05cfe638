"""CCA out of core against the generalised eigenvalue problem of the whole, and its scores."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.synthetic import make_family, synthetic
from vse.models.cca import canonical_maps, moments, principal_part
from vse.training.batches import Collator, blocks


def _pairs(num=60, x=5, y=4, seed=0):
    rng = np.random.default_rng(seed)
    shared = rng.normal(size=(num, 3))
    first = shared @ rng.normal(size=(3, x)) + 0.5 * rng.normal(size=(num, x)) + 100.0
    second = shared @ rng.normal(size=(3, y)) + 0.5 * rng.normal(size=(num, y)) - 3.0
    return first, second


def _in_blocks(x, y, size):
    def pairs():
        for start in range(0, len(x), size):
            yield torch.from_numpy(x[start : start + size]), torch.from_numpy(y[start : start + size])

    return pairs


@pytest.mark.parametrize("size", [1, 7, 60])
def test_moments_are_numpys_whatever_the_blocks(size):
    x, y = _pairs()
    found = moments(_in_blocks(x, y, size))
    whole = np.cov(np.concatenate([x, y], axis=1).T, bias=True)
    np.testing.assert_allclose(found.xx, whole[:5, :5], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.yy, whole[5:, 5:], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.xy, whole[:5, 5:], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(found.mean_x, x.mean(0), rtol=1e-12)


@pytest.mark.parametrize("ridge", [1e-9, 0.3])
def test_maps_solve_the_eigenvalue_problem(ridge):
    x, y = _pairs()
    found = moments(_in_blocks(x, y, 13))
    a, b, correlations = (t.numpy() for t in canonical_maps(found, 4, ridge))
    xx, yy, xy = found.xx.numpy(), found.yy.numpy(), found.xy.numpy()
    xx, yy = xx + ridge * xx.diagonal().mean() * np.eye(5), yy + ridge * yy.diagonal().mean() * np.eye(4)
    values, vectors = (np.real(found) for found in np.linalg.eig(np.linalg.inv(xx) @ xy @ np.linalg.inv(yy) @ xy.T))
    order = np.argsort(values)[::-1][:4]
    np.testing.assert_allclose(correlations, np.sqrt(values[order]), rtol=1e-8)
    for column, k in enumerate(order):
        direction = vectors[:, k]
        cosine = abs(direction @ a[:, column]) / np.linalg.norm(direction) / np.linalg.norm(a[:, column])
        assert cosine == pytest.approx(1, abs=1e-8)
    np.testing.assert_allclose(a.T @ xx @ a, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(b.T @ yy @ b, np.eye(4), atol=1e-9)
    np.testing.assert_allclose(a.T @ xy @ b, np.diag(correlations), atol=1e-9)


def test_correlations_are_those_of_the_variables():
    x, y = _pairs()
    found = moments(_in_blocks(x, y, 60))
    a, b, correlations = (t.numpy() for t in canonical_maps(found, 3, 1e-9))
    for k in range(3):
        assert np.corrcoef(x @ a[:, k], y @ b[:, k])[0, 1] == pytest.approx(correlations[k], abs=1e-6)


@pytest.mark.parametrize("size", [3, 1000])
def test_a_fitted_family_scores_by_the_cosine_of_scaled_variables(size):
    data = synthetic(seed=3, images=30)
    family = make_family("cca", data.context, dim=4, ridge=0.05, power=2.0)
    collate = Collator(data.examples, "pooled")
    family.fit(lambda: (collate(rows, 0) for rows in blocks(len(data), size)))
    batch = collate(np.arange(len(data)), 0)
    x, y = batch["pooled"].numpy(), batch["sentence"].numpy()
    a, b, correlations = (t.numpy() for t in canonical_maps(moments(_in_blocks(x, y, len(x))), 4, 0.05))
    images, captions = (x - x.mean(0)) @ a * correlations**2, (y - y.mean(0)) @ b * correlations**2
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    captions /= np.linalg.norm(captions, axis=1, keepdims=True)
    encoded = family(batch)
    np.testing.assert_allclose(family.scores(encoded, encoded), images @ captions.T, atol=1e-9)


def test_it_finds_the_partner_where_the_pairs_tell():
    x, y = _pairs(num=400)
    a, b, correlations = canonical_maps(moments(_in_blocks(x[:300], y[:300], 50)), 3, 1e-3)
    images = torch.from_numpy(x[300:] - x[:300].mean(0)) @ (a * correlations**4)
    captions = torch.from_numpy(y[300:] - y[:300].mean(0)) @ (b * correlations**4)
    scores = torch.nn.functional.normalize(images, dim=1) @ torch.nn.functional.normalize(captions, dim=1).T
    ranks = (scores > scores.diagonal()[:, None]).sum(1)
    assert float(ranks.double().mean()) < 20  # chance: 49.5


def test_no_more_variables_than_the_smaller_side_has():
    data = synthetic(seed=3)
    context = replace(data.context, sentence_dim=6)
    assert make_family("cca", context, dim=100).image_map.shape == (5, 5)
    assert make_family("cca", context, dim=2).caption_map.shape == (6, 2)


@pytest.mark.parametrize("components", [1, 3, 5])
def test_principal_components_are_read_as_if_x_had_been_projected(components):
    x, y = _pairs()
    directions = np.linalg.svd(x - x.mean(0), full_matrices=False)[2][:components].T
    projected = (x - x.mean(0)) @ directions
    part, found = principal_part(moments(_in_blocks(x, y, 13)), components)
    np.testing.assert_allclose(abs((directions * found.numpy()).sum(0)), 1, atol=1e-9)  # up to the sign
    number = min(components, 4)
    a, b, correlations = canonical_maps(part, number, 0.2)
    expected, other, values = canonical_maps(moments(_in_blocks(projected, y, 60)), number, 0.2)
    np.testing.assert_allclose(correlations, values, rtol=1e-9)
    scores = (x - x.mean(0)) @ (found @ a).numpy() @ b.numpy().T @ (y - y.mean(0)).T
    np.testing.assert_allclose(scores, projected @ expected.numpy() @ other.numpy().T @ (y - y.mean(0)).T, atol=1e-8)


def test_a_family_that_reads_all_components_scores_as_one_that_reads_the_features():
    data = synthetic(seed=3, images=30)
    collate = Collator(data.examples, "pooled")
    batch = collate(np.arange(len(data)), 0)
    scores = []
    for components in (0, 5):
        family = make_family("cca", data.context, dim=4, image_components=components)
        family.fit(lambda: (collate(rows, 0) for rows in blocks(len(data), 7)))
        encoded = family(batch)
        scores.append(family.scores(encoded, encoded))
    torch.testing.assert_close(*scores, rtol=0, atol=1e-6)
    assert make_family("cca", data.context, dim=4, image_components=2).image_map.shape == (5, 2)
