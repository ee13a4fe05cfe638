"""Files by path or address: copied once to a node, again when they change there, verified, within the cache's limit."""

from pathlib import Path

import pytest

from tests import s3
from vse.errors import InputError
from vse.storage import node_cache
from vse.storage import user_files as named_files
from vse.storage.checksums import sha256_of, sha256_of_file
from vse.storage.folder import Folder
from vse.storage.object_store import ObjectStore
from vse.storage.user_files import digest, ends, is_file, local, read

DATA = bytes(range(256)) * 20


@pytest.fixture
def folder(
    s3_proxy: s3.Proxy, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Folder:
    monkeypatch.setenv("VSE_CACHE", str(tmp_path / "cache"))
    return Folder.open(s3.address_of(request, s3_proxy.place))


def test_paths_stay_what_they_are(tmp_path: Path) -> None:
    file = tmp_path / "a b.bin"
    file.write_bytes(DATA)
    assert local(str(file)) == file
    assert (read(str(file)), digest(str(file))) == (DATA, sha256_of(DATA))
    assert ends(str(file), 10) == (len(DATA), DATA[:10], DATA[-10:])
    file.write_bytes(DATA + b"more")
    assert digest(str(file)) == sha256_of(DATA + b"more")
    assert is_file(str(file))
    assert not is_file(str(tmp_path))
    assert not is_file("")
    for ask in (read, digest, lambda path: ends(path, 3)):
        with pytest.raises(InputError, match=r"absent: cannot be read: No such file"):
            ask(str(tmp_path / "absent"))


def test_an_object_is_copied_once_in_parts(
    folder: Folder, s3_proxy: s3.Proxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(named_files, "PART", 1000)
    folder.write_bytes("a b.bin", DATA)
    address = folder.address("a b.bin")
    s3_proxy.seen.clear()
    path = local(address)
    assert s3_proxy.seen == ["HEAD", *["GET"] * 6]
    assert path.is_relative_to(tmp_path / "cache")
    assert path.name == "a b.bin"
    assert path.read_bytes() == DATA
    s3_proxy.seen.clear()
    assert (read(address), digest(address), local(address)) == (DATA, sha256_of(DATA), path)
    assert s3_proxy.seen == ["HEAD"] * 3


def test_ends_need_no_copy(folder: Folder, s3_proxy: s3.Proxy, tmp_path: Path) -> None:
    folder.write_bytes("a", DATA)
    folder.write_bytes("empty", b"")
    assert ends(folder.address("a"), 10) == (len(DATA), DATA[:10], DATA[-10:])
    assert ends(folder.address("a"), 10**6) == (len(DATA), DATA, DATA)
    assert ends(folder.address("empty"), 10) == (0, b"", b"")
    assert not (tmp_path / "cache").exists()
    assert read(folder.address("empty")) == b""


def test_what_has_changed_there_is_copied_again(folder: Folder) -> None:
    for text in (b"one", b"two"):
        folder.write_bytes("a", text)
        assert (read(folder.address("a")), digest(folder.address("a"))) == (text, sha256_of(text))


def test_a_file_that_changes_while_it_is_read_is_read_from_its_start(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(named_files, "PART", 1000)
    folder.write_bytes("a", DATA)
    whole, changed = ObjectStore.read_range, []

    def read_range(store: ObjectStore, name: str, start: int, stop: int, tag: str) -> bytes:
        if start == 2000 and not changed:
            changed.append(folder.write_bytes("a", DATA[::-1]))
        return whole(store, name, start, stop, tag)

    monkeypatch.setattr(ObjectStore, "read_range", read_range)
    assert read(folder.address("a")) == DATA[::-1]
    assert changed


def test_a_copy_is_hashed_once_a_process(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.write_bytes("a", DATA)
    hashed = list[Path]()

    def counted(path: Path) -> str:
        hashed.append(path)
        return sha256_of_file(path)

    monkeypatch.setattr(named_files, "sha256_of_file", counted)
    for _ in range(3):
        assert read(folder.address("a")) == DATA
    assert len(hashed) == 1


def test_a_copy_that_its_disk_has_altered_is_made_again(folder: Folder, s3_proxy: s3.Proxy) -> None:
    folder.write_bytes("a", DATA)
    path = local(folder.address("a"))
    path.write_bytes(DATA[::-1])
    named_files._taken.cache_clear()  # as a process that comes later has it
    assert read(folder.address("a")) == DATA
    path = local(folder.address("a"))
    path.write_bytes(DATA[:-1])
    s3_proxy.seen.clear()
    assert read(folder.address("a")) == DATA
    assert s3_proxy.seen == ["HEAD", "GET"]


def test_copies_make_room_for_each_other(folder: Folder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(node_cache.LIMIT, str(2.5 * len(DATA) / 2**30))
    for name in "abc":
        folder.write_bytes(name, DATA)
        local(folder.address(name))
    there = {path.name for path in (tmp_path / "cache" / "copies").glob("*/*")}
    assert there == {"b", "c"}
    assert read(folder.address("a")) == DATA


def test_what_is_not_there_is_one_line(folder: Folder) -> None:
    address = folder.address("absent")
    assert not is_file(address)
    for ask in (local, read, digest, lambda place: ends(place, 3)):
        with pytest.raises(InputError, match=r"^s3://bucket/.*/absent\?.*: no such file$"):
            ask(address)
