from pathlib import Path

import numpy as np
import pytest
import torch
from torchvision.ops import roi_align

from vse.data.regions import region_uri
from vse.errors import InputError
from vse.features.region_features import RegionFeatures, cell_shares
from vse.features.shards import Output, write_shard
from vse.features.store import FeatureStore, commit
from vse.storage.folder import Folder

IDS = ["a.jpg", region_uri("a.jpg", (0.1, 0.2, 0.6, 0.4))]


def _store(tmp_path: Path, ids: list[str], pooled: np.ndarray, maps: np.ndarray) -> FeatureStore:
    folder = Folder.open(str(tmp_path / "store"))
    write_shard(folder, ids, {"pooled": pooled, "map": maps})
    return commit(folder, ids, {"pooled": Output(pooled.shape[1:]), "map": Output(maps.shape[1:])}, {})


def test_geometry_follows_the_features(tmp_path: Path) -> None:
    rows = np.arange(6, dtype=np.float16).reshape(2, 3)
    store = _store(tmp_path, IDS, rows, np.ones((2, 4, 3), np.float16))
    features = RegionFeatures(store, str(tmp_path / "cache"), lambda: store)
    assert features.channels("pooled") == 8
    found = features.array("pooled", (IDS[1], IDS[0]))
    np.testing.assert_array_equal(found[:, :3], rows[::-1])
    np.testing.assert_allclose(found[:, 3:], [[0.1, 0.2, 0.6, 0.4, 0.1], [0, 0, 1, 1, 1]], atol=1e-3)
    with pytest.raises(InputError, match=r"data\.geometry=true: needs an output with one vector per region"):
        features.channels("map")


def test_shares_of_cells_by_counting_points() -> None:
    draws = np.random.default_rng(0).uniform(size=(20, 4))
    sides = np.concatenate([np.minimum(draws[:, :2], draws[:, 2:]), np.maximum(draws[:, :2], draws[:, 2:]) + 0.05], 1)
    sides = np.concatenate([sides.clip(0, 1), [[0, 0, 1, 1], [0.3, 0.3, 0.301, 0.301]]])
    found = cell_shares(sides, 3, 4)
    points = (np.arange(600) + 0.5) / 600
    for (left, top, right, bottom), shares in zip(sides, found, strict=True):
        x, y = left + (right - left) * points, top + (bottom - top) * points
        columns = np.bincount((x * 4).astype(int), minlength=4) / 600
        rows = np.bincount((y * 3).astype(int), minlength=3) / 600
        np.testing.assert_allclose(shares.reshape(3, 4), np.outer(rows, columns), atol=4e-3)
    np.testing.assert_allclose(found.sum(1), 1)


def test_means_are_those_of_roi_align() -> None:
    """Where the map does not change within a cell: RoIAlign interpolates between cells."""
    map_ = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(3))
    fine = map_.repeat_interleave(32, 1).repeat_interleave(32, 2)
    sides = np.array([[0.2, 0.1, 0.9, 0.4], [0.05, 0.3, 0.5, 0.95], [0.4, 0.4, 0.8, 0.8]])
    boxes = torch.tensor(sides * [128, 160, 128, 160], dtype=torch.float32)
    aligned = roi_align(fine[None], [boxes], output_size=1, sampling_ratio=200, aligned=True).flatten(1)
    means = cell_shares(sides, 5, 4) @ map_.flatten(1).T.double().numpy()
    np.testing.assert_allclose(aligned, means, atol=0.005)
    assert np.abs(means).max() > 0.1


def test_roi_align_agrees_on_a_slope() -> None:
    """Boxes of whole cells away from the border, where interpolation changes no mean."""
    slope = torch.arange(8.0).repeat(6, 1)[None] + 2 * torch.arange(6.0)[None, :, None]
    cells = np.array([[1, 1, 5, 4], [2, 2, 7, 5], [3, 1, 4, 2]])
    aligned = roi_align(slope[None], [torch.tensor(cells, dtype=torch.float32)], 1, sampling_ratio=4, aligned=True)
    means = cell_shares(cells / [8, 6, 8, 6], 6, 8) @ slope.flatten(1).T.double().numpy()
    np.testing.assert_allclose(aligned.flatten(1), means, atol=1e-5)


@pytest.mark.parametrize("with_geometry", [True, False])
def test_means_of_the_photographs_map(tmp_path: Path, with_geometry: bool) -> None:
    maps = np.random.default_rng(1).normal(size=(2, 4, 3)).astype(np.float16)
    store = _store(tmp_path, ["a.jpg", "b.jpg"], maps.mean(1), maps)
    features = RegionFeatures(store, "", lambda: store, pooled=True, with_geometry=with_geometry)
    regions = [("b.jpg", (0.5, 0.0, 1.0, 0.5)), ("a.jpg", (0.0, 0.0, 1.0, 1.0)), ("b.jpg", (0.25, 0.5, 1.0, 1.0))]
    found = features.array("pooled", tuple(region_uri(*each) for each in regions))
    expected = [maps[1, 1], maps[0].mean(0), (maps[1, 2] + 2 * maps[1, 3]) / 3]  # cells in row-major order
    np.testing.assert_allclose(found[:, :3], expected, atol=2e-3)
    assert found.shape == (3, features.channels("pooled")) == (3, 8 if with_geometry else 3)
    if with_geometry:
        np.testing.assert_allclose(found[0, 3:], [0.5, 0, 1, 0.5, 0.25], atol=1e-3)
