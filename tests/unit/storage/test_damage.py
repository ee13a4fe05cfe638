"""Damaged files are found by their manifest or their own checksum, named, and removed to be made again."""

import logging

import pytest

from tests import s3
from tests.levels import slow_but
from vse.errors import DamagedError
from vse.storage.damage import damaged_files, listed, remove_damaged
from vse.storage.files import with_checksum, without_checksum
from vse.storage.folder import MANIFEST, Folder


@pytest.fixture(params=["local", "s3"])
def folder(request, tmp_path, s3_server):
    """A committed folder of three files."""
    made = Folder.open(tmp_path / "made" if request.param == "local" else s3.address_of(request, s3_server))
    for name in "abc":
        made.write_text(name, f"what is in {name}")
    made.commit_manifest("abc", {"kind": "test"})
    return made


def flip(folder: Folder, name: str, at: int = 5) -> None:
    data = folder.read_bytes(name)
    folder.write_bytes(name, data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])


def test_a_whole_folder_has_no_damage(folder):
    assert damaged_files(folder) == []
    assert remove_damaged(folder) == []
    assert folder.names() == ("a", "b", "c", MANIFEST)
    assert damaged_files(folder.child("absent")) == []


def test_several_are_removed_in_one_pass_with_one_warning(folder, caplog):
    folder.delete("a")
    flip(folder, "c")
    assert damaged_files(folder) == ["a", "c"]
    with caplog.at_level(logging.WARNING, "vse"):
        assert remove_damaged(folder) == ["a", "c"]
    assert folder.names() == ("b", MANIFEST)
    warned = [record.getMessage() for record in caplog.records if record.name == "vse.storage.damage"]
    assert warned == [f"{folder}: a, c are damaged or missing; making them again"]


@pytest.mark.parametrize(
    "damaged", [b"", b"<html>", b"[]", b'{"files": {"a": 1}}', b'{"files": {"a": {"bytes": "x"}}}']
)
def test_a_damaged_manifest_is_none_and_is_named(folder, damaged):
    folder.write_bytes(MANIFEST, damaged)
    assert folder.manifest_alone() is None
    assert folder.read_manifest() is None
    assert damaged_files(folder) == [MANIFEST]


@pytest.mark.parametrize("folder", slow_but(["local", "s3"], "local"), indirect=True)
def test_one_bit_of_a_manifest_is_noticed_wherever_it_is(folder):
    whole = folder.read_bytes(MANIFEST)
    for at in range(0, len(whole), 7):
        flip(folder, MANIFEST, at)
        manifest = folder.manifest_alone()
        assert manifest is None or "checksum" not in str(sorted(manifest)), at
        folder.write_bytes(MANIFEST, whole)
    assert folder.manifest_alone() == {"kind": "test", "files": {name: folder.entry(name) for name in "abc"}}


def test_a_checked_file_reads_as_it_was_written(folder):
    value = {"α": [1, 2.5, None], "nested": {"b": True}}
    folder.write_checked("x.json", value)
    assert folder.read_json("x.json") == value
    folder.write_bytes("x.json", folder.read_bytes("x.json").replace(b"2.5", b"2.6"))
    with pytest.raises(DamagedError, match=r"x\.json.*damaged.*checksum differs"):
        folder.read_json("x.json")


def test_checksums_of_json_objects():
    assert without_checksum(with_checksum({"a": (1, 2)})) == {"a": (1, 2)}
    assert without_checksum([1]) == [1]
    assert without_checksum({"a": 1}) == {"a": 1}
    with pytest.raises(ValueError, match="differs"):
        without_checksum(with_checksum({"a": 1}) | {"a": 2})


def test_many_names_are_told_in_a_few_words():
    assert listed(["a"]) == "a is damaged or missing"
    assert listed(list("abcde")) == "a, b, c and 2 more are damaged or missing"
