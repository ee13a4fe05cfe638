"""Per-image tables come back from their file as they were."""

import numpy as np

from vse.config import override
from vse.presets import preset
from vse.storage.folder import Folder
from vse.studies.tables import Key, alpha_key, packed, read_table
from vse.studies.tasks import Task
from vse.workspace.layout import Workspace


def test_what_is_packed_is_read_by_its_key(workspace: Workspace) -> None:
    rng = np.random.default_rng(0)
    wholes = {
        Key(split, words, alpha, metric): np.stack([rng.random(4), rng.integers(0, 5, 4).astype(float)], axis=1)
        for split in ("test", "a|b")
        for words in ("shared", "disjoint")
        for alpha in (alpha_key(0.75), alpha_key(None))
        for metric in ("t2i/r1", "i2t/r1")
    }
    task = Task("planted", override(preset("vsepp_tiny"), {}), (), ("test",), "", workspace.root.uri)
    Folder.open(task.results).write_bytes(f"{task.name}.parquet", packed(wholes))
    for key in wholes:
        found = read_table(task, key.split, key.words, key.alpha)
        assert list(found) == ["t2i/r1", "i2t/r1"]
        np.testing.assert_array_equal(found[key.metric], wholes[key])


def test_alpha_has_one_name() -> None:
    assert [alpha_key(each) for each in (None, 0.75, 1.0, 0.6)] == ["none", "0.75", "1", "0.6"]
