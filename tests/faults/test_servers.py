"""The server of S3 that the campaign kills keeps what it has answered, and conditions hold across its death."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.s3 import BUCKET, KEYS, address
from tests.servers import Server, s3_server, serving
from vse.storage.folder import Folder
from vse.storage.object_store import ObjectStore

pytestmark = pytest.mark.process


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "objects" / BUCKET).mkdir(parents=True)
    found = s3_server(tmp_path / "objects", tmp_path)
    with serving(found):
        yield found


@pytest.mark.slow
def test_objects_survive_its_death(server: Server, tmp_path: Path) -> None:
    place = address(f"127.0.0.1:{server.port}", "space")
    folder, store = Folder.open(place), ObjectStore.open(place)
    first = store.create("kept", b"1")
    folder.write_text("gone", "")
    folder.child("in", "depth").write_text("größe.json", "{}")
    folder.child("many").write_text("a", "")
    folder.delete("gone")
    folder.delete("many")  # several objects in one request
    server.stop()
    server.launch()
    assert folder.names() == ("in", "kept")  # waits until it serves
    assert folder.child("in", "depth").read_json("größe.json") == {}
    with pytest.raises(FileExistsError):
        store.create("kept", b"2")
    second = store.replace("kept", b"2", first)
    server.stop()
    files = [path for path in (tmp_path / "objects" / BUCKET).rglob("*") if path.is_file()]
    assert sorted(path.name for path in files) == ["größe.json", "kept"]
    server.launch()
    with pytest.raises(FileExistsError):
        store.replace("kept", b"3", first)
    assert store.read_tagged("kept") == (b"2", second)
