from pathlib import Path

import numpy as np
import pytest

from vse.data.regions import region_uri
from vse.errors import InputError
from vse.features.region_features import RegionFeatures
from vse.features.shards import Output, write_shard
from vse.features.store import commit
from vse.storage.folder import Folder


def test_geometry_follows_the_features(tmp_path: Path) -> None:
    ids = ["a.jpg", region_uri("a.jpg", (0.1, 0.2, 0.6, 0.4))]
    rows = np.arange(6, dtype=np.float16).reshape(2, 3)
    folder = Folder.open(str(tmp_path / "store"))
    write_shard(folder, ids, {"pooled": rows, "map": np.ones((2, 4, 3), np.float16)})
    store = commit(folder, ids, {"pooled": Output((3,)), "map": Output((4, 3))}, {})
    features = RegionFeatures(store, str(tmp_path / "cache"), lambda: store)
    assert features.channels("pooled") == 8
    found = features.array("pooled", (ids[1], ids[0]))
    np.testing.assert_array_equal(found[:, :3], rows[::-1])
    np.testing.assert_allclose(found[:, 3:], [[0.1, 0.2, 0.6, 0.4, 0.1], [0, 0, 1, 1, 1]], atol=1e-3)
    with pytest.raises(InputError, match=r"data\.geometry: goes with one vector of a region"):
        features.channels("map")
