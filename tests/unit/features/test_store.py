"""The feature store: plain pyarrow reads it, order and rejects, damage, caches, windows."""

import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import s3
from vse.errors import InputError
from vse.features.shards import Output, half, read_receipts, read_shard, write_shard
from vse.features.store import FeatureStore, commit
from vse.storage.folder import Folder
from vse.storage.parallel_reads import AHEAD, AHEAD_ON_DISK

OUTPUTS = {"map": Output((4, 3)), "pooled": Output((3,)), "mask": Output((4,), "uint8")}


def rows(ids, seed=0):
    """Features that follow from the id alone."""
    values = [np.random.default_rng([seed, int(i)]).standard_normal((4, 3)) for i in ids]
    maps = half(np.array(values))
    return {"map": maps, "pooled": half(maps.mean(1)), "mask": np.array([[1, 1, int(i) % 2, 0] for i in ids], np.uint8)}


@pytest.fixture
def folder(tmp_path):
    return Folder.open(tmp_path / "store")


IDS = [str(i) for i in range(10)]


@pytest.fixture
def store(folder):
    write_shard(folder, ["7", "3", "1"], rows(["7", "3", "1"]))
    write_shard(folder, ["0", "9", "4", "2"], rows(["0", "9", "4", "2"]), [("5", "cannot be read")])
    write_shard(folder, ["8"], rows(["8"]), [("6", "empty file")])
    return commit(folder, IDS, OUTPUTS, {"backbone": "none"})


def test_outputs_come_back_in_the_order_asked_for(store):
    assert store.outputs == ("map", "pooled", "mask")
    assert store.shape("map") == (4, 3)
    assert store.ids == ("0", "1", "2", "3", "4", "7", "8", "9")
    assert store.rejects == {"5": "cannot be read", "6": "empty file"}
    asked = ["9", "0", "7", "7", "2"]
    for name, expected in rows(asked).items():
        values = store.array(name, asked)
        assert values.dtype == expected.dtype
        assert np.array_equal(values, expected)


def test_plain_pyarrow_sees_shapes(store):
    file = next(n for n in store.folder.names() if n.endswith(".parquet") and n.startswith("shard"))
    table = pq.read_table(store.folder.local(file))
    assert table.schema.field("map").type == pa.fixed_shape_tensor(pa.float16(), (4, 3))
    ids = table.column("image").to_pylist()
    assert np.array_equal(table.column("map").combine_chunks().to_numpy_ndarray(), rows(ids)["map"])


def test_a_shard_of_several_row_groups_reads_whole(folder, monkeypatch):
    monkeypatch.setattr("vse.features.shards.ROW_GROUP_BYTES", 200)
    ids = [str(i) for i in range(50)]
    receipt = write_shard(folder, ids, rows(ids))
    assert receipt.file is not None
    assert pq.ParquetFile(folder.local(receipt.file)).num_row_groups > 5
    assert np.array_equal(read_shard(folder, receipt.file, ["map"])["map"], rows(ids)["map"])


def test_an_image_without_features_is_named_with_its_reason(store):
    with pytest.raises(InputError, match=r"'5' was rejected \(cannot be read\)"):
        store.array("map", ["1", "5"])
    with pytest.raises(InputError, match="'x' is not in the store"):
        store.array("map", ["x"])
    with pytest.raises(InputError, match="no output 'fc1'; it has map, pooled, mask"):
        store.array("fc1", ["1"])


def test_values_that_are_not_finite_in_half_precision_are_rejected(folder):
    values = rows(["1", "2", "3", "4"])
    values["pooled"][1, 0] = np.nan
    values["map"][2] = half(np.full((4, 3), 1e6))
    receipt = write_shard(folder, ["1", "2", "3", "4"], values)
    assert receipt.ids == ("1", "4")
    assert dict(receipt.rejects) == {
        "2": "pooled: not finite in half precision",
        "3": "map: not finite in half precision",
    }
    store = commit(folder, ["1", "2", "3", "4"], OUTPUTS, {})
    assert np.array_equal(store.array("map", ["4", "1"]), rows(["4", "1"])["map"])


def test_a_shard_of_rejects_only_needs_no_file(folder):
    receipt = write_shard(folder, [], {}, [("1", "a"), ("2", "b")])
    assert receipt.file is None
    assert commit(folder, ["1", "2"], OUTPUTS, {}).rejects == {"1": "a", "2": "b"}


def test_the_same_rows_make_the_same_shard_and_are_stored_once(folder):
    first = write_shard(folder, ["2", "1"], rows(["2", "1"]))
    again = write_shard(folder, ["2", "1"], rows(["2", "1"]))
    assert first == again
    assert len(list(read_receipts(folder))) == 1
    assert commit(folder, ["1", "2"], OUTPUTS, {}).ids == ("1", "2")


def test_without_receipt_or_in_other_bytes_a_shard_does_not_count(folder):
    receipts = [write_shard(folder, [i], rows([i])) for i in "1234"]
    folder.delete(f"{receipts[0].name}.json")
    truncated, altered = (folder.local(str(r.file)) for r in receipts[1:3])
    truncated.write_bytes(truncated.read_bytes()[:-1])
    altered.write_bytes(altered.read_bytes()[:-1] + b"\x00")
    assert [r.ids for r in read_receipts(folder)] == [("4",)]


@pytest.mark.parametrize("ids", ["12", "34", "56", "78"])  # names of shards are digests: some come first, some later
def test_rows_made_again_stand_for_those_of_a_damaged_shard(folder, ids):
    damaged = write_shard(folder, list(ids), rows(list(ids)))
    file = folder.local(str(damaged.file))
    file.write_bytes(file.read_bytes()[:-1] + b"\x00")
    assert not list(read_receipts(folder))
    for image in ids:
        write_shard(folder, [image], rows([image]))
    store = commit(folder, list(ids), OUTPUTS, {})
    assert damaged.file not in store.manifest["files"]
    assert np.array_equal(store.array("map", list(ids)), rows(list(ids))["map"])


def test_an_incomplete_store_does_not_open_and_a_missing_image_is_a_defect(folder):
    write_shard(folder, ["1"], rows(["1"]))
    with pytest.raises(InputError, match="no complete feature store"):
        FeatureStore.open(folder)
    with pytest.raises(AssertionError, match="'2' first"):
        commit(folder, ["1", "2"], OUTPUTS, {})
    commit(folder, ["1"], OUTPUTS, {})
    shard = next(n for n in folder.names() if n.endswith(".parquet") and n.startswith("shard"))
    folder.local(shard).write_bytes(b"cut")
    with pytest.raises(InputError, match="no complete feature store"):
        FeatureStore.open(folder)


def test_damage_of_the_same_size_is_found_when_read(store):
    shard = next(n for n in store.folder.names() if n.endswith(".parquet") and n.startswith("shard"))
    path = store.folder.local(shard)
    path.write_bytes(path.read_bytes()[:-1] + b"\x00")
    with pytest.raises(InputError, match="damaged, its checksum differs"):
        FeatureStore.open(store.folder).array("map", list(store.ids))


@pytest.mark.parametrize("remote", [False, True])
def test_shards_are_read_side_by_side_into_the_order_asked_for(remote, tmp_path, s3_server, request, monkeypatch):
    folder = Folder.open(s3.address_of(request, s3_server) if remote else tmp_path / "store")
    ids = [str(i) for i in range(24)]
    for start in range(0, 24, 2):
        write_shard(folder, ids[start : start + 2], rows(ids[start : start + 2]))
    store, asked = commit(folder, ids, OUTPUTS, {}), [str(i * 7 % 24) for i in range(24)]
    beside = threading.Barrier(AHEAD if remote else AHEAD_ON_DISK)

    def read(*arguments):
        beside.wait(timeout=20)
        return read_shard(*arguments)

    monkeypatch.setattr("vse.features.store.read_shard", read)
    assert np.array_equal(store.array("map", asked, tmp_path / "cache"), rows(asked)["map"])
    damaged = next(name for name in sorted(store.manifest["files"]) if name.startswith("shard"))
    folder.write_bytes(damaged, folder.read_bytes(damaged)[:-1] + b"\x00")
    monkeypatch.undo()
    with pytest.raises(InputError, match="damaged"):
        store.array("pooled", asked, tmp_path / "cache")
    assert not list((tmp_path / "cache").rglob("pooled*.npy"))


def test_caches_are_memory_mapped_made_once_and_keyed_by_what_they_hold(store, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    asked = ["9", "0", "7"]
    first = store.array("map", asked, cache)
    assert isinstance(first, np.memmap)
    assert not first.flags.writeable
    assert np.array_equal(first, rows(asked)["map"])
    monkeypatch.setattr("vse.features.store.read_shard", None)  # a second request reads no shard
    assert np.array_equal(store.array("map", asked, cache), first)
    monkeypatch.undo()
    assert np.array_equal(store.array("map", asked[::-1], cache), rows(asked[::-1])["map"])
    assert np.array_equal(store.array("mask", asked, cache), rows(asked)["mask"])
    assert store.array("map", [], cache).shape == (0, 4, 3)
    assert not list(cache.rglob(".writing-*"))


def test_stores_of_other_content_have_other_caches(store, tmp_path):
    other = Folder.open(tmp_path / "other")
    write_shard(other, IDS, rows(IDS, seed=1))
    second = commit(other, IDS, OUTPUTS, {})
    assert second.fingerprint != store.fingerprint
    one, two = (s.array("map", ["1"], tmp_path / "cache") for s in (store, second))
    assert not np.array_equal(one, two)
