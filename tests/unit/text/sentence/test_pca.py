"""Principal components in blocks against the singular values of the whole matrix, both ways round."""

import tempfile

import numpy as np
import pytest

from vse.text.sentence import pca
from vse.text.sentence.pca import fit_pca


def in_blocks(x, size):
    return lambda: (x[low : low + size] for low in range(0, len(x), size))


def matrix(rows, columns):
    rng = np.random.default_rng(rows)
    return (rng.normal(size=(rows, columns)) * np.linspace(3, 0.5, columns) + 5).astype(np.float32)


@pytest.mark.parametrize(("rows", "columns"), [(40, 12), (12, 40), (13, 13), (2, 5)])
@pytest.mark.parametrize("size", [1, 5, 100])
def test_equals_the_singular_value_decomposition(tmp_path, monkeypatch, rows, columns, size):
    monkeypatch.setattr(pca, "_ROWS", 4)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    x = matrix(rows, columns)
    found = fit_pca(in_blocks(x, size), 6000)
    _, values, vectors = np.linalg.svd(x.astype(np.float64) - x.mean(0, dtype=np.float64), full_matrices=False)
    k = min(rows - 1, columns)
    assert found.components.shape == (k, columns)
    np.testing.assert_allclose(found.variance, values[:k] ** 2 / (rows - 1), rtol=1e-3)
    np.testing.assert_allclose(np.abs((found.components * vectors[:k]).sum(1)), 1, atol=1e-3)
    np.testing.assert_allclose(found.components @ found.components.T, np.eye(k), atol=1e-3)
    assert (found.components.max(1) == np.abs(found.components).max(1)).all()
    assert not list(tmp_path.iterdir())  # rows that lay on the disk are gone


def test_single_precision_for_wide_rows_gives_the_same(monkeypatch):
    x = matrix(60, 9)
    double = fit_pca(in_blocks(x, 7), 5)
    monkeypatch.setattr(pca, "_IN_DOUBLE", 3)
    np.testing.assert_allclose(fit_pca(in_blocks(x, 7), 5).components, double.components, atol=1e-4)


def test_all_components_keep_all_distances_and_fewer_keep_the_most_variance():
    x = matrix(20, 30)
    full, few = fit_pca(in_blocks(x, 6), 19), fit_pca(in_blocks(x, 6), 3)
    there = full.project(x)
    np.testing.assert_allclose(np.linalg.norm(there[0] - there[1]), np.linalg.norm(x[0] - x[1]), rtol=1e-4)
    np.testing.assert_allclose(few.components, full.components[:3], atol=1e-4)
    np.testing.assert_allclose(there.var(0, ddof=1), full.variance, rtol=1e-3)
    np.testing.assert_allclose(there.mean(0), 0, atol=1e-4)


@pytest.mark.parametrize("columns", [4, 40])
def test_repeated_rows_have_no_components_of_their_own(columns):
    x = np.repeat(matrix(3, columns), 7, axis=0)
    assert fit_pca(in_blocks(x, 5), 6000).components.shape == (2, columns)
    same = np.ones((5, columns), dtype=np.float32)
    found = fit_pca(in_blocks(same, 2), 10)
    assert np.isfinite(found.project(same)).all()
