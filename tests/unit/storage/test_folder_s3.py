"""The same folders on S3, against a local server that speaks its protocol."""

import time

import numpy as np
import pytest

from tests import s3
from vse.errors import InputError
from vse.features.shards import Output, write_shard
from vse.features.store import FeatureStore, commit
from vse.storage.folder import Folder
from vse.storage.lease import LEASE_SECONDS

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def address():
    """URI of an empty prefix in a bucket, with the options that lead to the server."""
    with s3.server() as place:
        yield s3.address(place)


def test_files_folders_and_manifests(address):
    folder = Folder.open(address).child("a", "b")
    assert folder.uri.startswith("s3://bucket/work-space/a/b?")
    assert not folder.is_local
    assert folder.names() == ()
    assert folder.read_manifest() is None
    folder.write_text("x", "1")
    folder.write_json("y.json", {"a": 1})
    assert folder.names() == ("x", "y.json")
    assert folder.read_json("y.json") == {"a": 1}
    assert folder.exists("x")
    assert folder.size("x") == 1
    folder.commit_manifest(["x", "y.json"], {"rows": 1})
    assert folder.is_committed()
    folder.write_text("x", "2")
    assert folder.read_manifest(checksums=False) is not None
    assert folder.read_manifest() is None
    folder.delete("x")
    assert not folder.exists("x")
    assert Folder.open(address).child("a").names() == ("b",)
    Folder.open(address).delete("a")
    assert folder.names() == ()


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_a_tag_changes_with_what_is_written(address, tmp_path, kind):
    folder = Folder.open(tmp_path if kind == "local" else address).child("tags")
    assert folder.info("x") is None
    tags = []
    for text in ("one", "two", "three"):
        folder.child("deep").write_text("x", text)
        info = folder.child("deep").info("x")
        assert info is not None
        assert info.size == len(text)
        tags.append(info.tag)
        assert folder.child("deep").info("x") == info
        assert list(folder.folders_with("x")) == [(folder.child("deep"), info)]
    assert len(set(tags)) == 3
    assert folder.info("deep") is None


def test_an_address_of_a_file_leads_back_to_it(address, tmp_path):
    for folder in (Folder.open(address).child("a"), Folder.open(tmp_path / "a?b"), Folder.open("/")):
        assert Folder.of_file(folder.address("best.json")) == (folder, "best.json")
    assert Folder.open(address).address("x").partition("?")[0] == "s3://bucket/work-space/x"
    assert Folder.of_file("best.json") == (Folder.open("."), "best.json")


def test_a_lease_says_that_somebody_works_there_until_it_is_old(address, monkeypatch):
    folder = Folder.open(address).child("stage")
    assert not folder.is_locked()
    with folder.locked():
        assert folder.is_locked()
        now = time.time()
        monkeypatch.setattr("vse.storage.folder.time.time", lambda: now + 100)
        assert not folder.is_locked()
        monkeypatch.undo()
    assert not folder.is_locked()


def test_who_may_do_without_a_lock_waits_for_as_long_as_a_dead_holder_has_it(address, monkeypatch):
    folder, waits = Folder.open(address).child("stage"), []

    def lease(store, name, wait):
        waits.append(wait)
        raise TimeoutError("held by another job")

    with folder.taken() as mine:
        assert mine
        assert folder.is_locked()
    assert not folder.is_locked()
    monkeypatch.setattr("vse.storage.folder.lease", lease)
    for wait in (0.0, 10.0, 60.0):
        with folder.taken(wait) as mine:
            assert not mine
    assert waits == [1.5 * LEASE_SECONDS, 1.5 * LEASE_SECONDS, 60.0]


def test_what_needs_a_local_path_says_so(address):
    with pytest.raises(InputError, match="local folder is needed"):
        Folder.open(address).local("x")


def test_a_missing_bucket_is_refused_in_one_line(address):
    Folder.open(address).check_writable()
    with pytest.raises(InputError, match="no such bucket") as refusal:
        Folder.open(address.replace("bucket/", "nowhere/")).check_writable()
    assert "\n" not in str(refusal.value)


def test_a_feature_store_lives_there(address, tmp_path):
    folder = Folder.open(address).child("features")
    rows = np.arange(12, dtype=np.float16).reshape(4, 3)
    write_shard(folder, ["a", "b", "c", "d"], {"pooled": rows}, [("e", "file is empty")])
    store = commit(folder, ["a", "b", "c", "d", "e"], {"pooled": Output((3,))}, {})
    assert np.array_equal(FeatureStore.open(folder).array("pooled", ["d", "a"], tmp_path), rows[[3, 0]])
    assert store.rejects == {"e": "file is empty"}
