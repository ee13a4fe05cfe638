"""Writes without an answer: what they left on the server still belongs to the job, and nothing else does."""

from dataclasses import replace

import pytest

from tests import s3
from vse.errors import StorageError
from vse.storage.object_store import ObjectStore
from vse.storage.owned_object import OwnedObject

pytestmark = pytest.mark.process


@pytest.fixture
def store(s3_proxy: s3.Proxy, request: pytest.FixtureRequest) -> ObjectStore:
    return replace(ObjectStore.open(s3.address_of(request, s3_proxy.place)), outage=0.0)


def test_an_object_is_written_again_after_writes_without_an_answer(store: ObjectStore, s3_proxy: s3.Proxy) -> None:
    own = OwnedObject(store, "x")
    assert own.read() == b""
    for data in (b"1", b"2"):  # the server takes both, the second after its tag is adopted
        s3_proxy.faults = [("PUT", "lose")] if data == b"1" else [("PUT", ""), ("PUT", "lose")]
        with pytest.raises(StorageError):
            own.write(data)
        assert store.read("x") == data
    own.write(b"3")
    assert (own.read(), own.unanswered) == (b"3", set())
    store.write("x", b"of another")
    for answer in ("lose", ""):
        s3_proxy.faults = [("PUT", answer)]
        with pytest.raises(OSError, match="x"):
            own.write(b"4")
    with pytest.raises(FileExistsError):
        own.write(b"5")
    assert store.read("x") == b"of another"


def test_a_server_that_refuses_its_own_tag_is_not_begged(store: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> None:
    own = OwnedObject(store, "x", tag=store.write("x", b"1"), unanswered={b"1"})
    attempts = list[bytes]()

    def refuse(self: ObjectStore, name: str, data: bytes, tag: str) -> str:
        attempts.append(data)
        raise FileExistsError(name)

    monkeypatch.setattr(ObjectStore, "replace", refuse)
    with pytest.raises(FileExistsError):
        own.write(b"2")
    assert attempts == [b"2"]
