"""Objects on a server that speaks S3's protocol, while its answers go wrong."""

import threading
from dataclasses import replace

import pytest

from tests import s3
from tests.levels import slow
from vse.errors import CredentialsError, InputError, StorageError
from vse.storage import object_store
from vse.storage.folder import Folder
from vse.storage.object_store import ObjectStore


@pytest.fixture
def store(s3_proxy: s3.Proxy, request: pytest.FixtureRequest) -> ObjectStore:
    return ObjectStore.open(s3.address_of(request, s3_proxy.place))


SLOW, BROKEN = s3.error(503, "SlowDown"), s3.error(500, "InternalError")


@pytest.mark.parametrize(
    "fault", ["drop", *slow([(SLOW,), (BROKEN,)])], ids=["connection broken", "throttled", "server error"]
)
def test_what_passes_is_waited_out(store, s3_proxy, fault):
    s3_proxy.faults = [("PUT", fault), ("PUT", fault), ("GET", fault)]
    store.write("a", b"data")
    assert store.read("a") == b"data"
    assert s3_proxy.faults == []
    assert s3_proxy.seen.count("PUT") == 3


def test_what_stays_is_said_in_one_line(store, s3_proxy):
    s3_proxy.faults = [("PUT", SLOW)] * 2
    with pytest.raises(StorageError, match=r"s3://bucket/.*/a: SlowDown it is") as told:
        replace(store, outage=0.05).write("a", b"data")
    assert "\n" not in str(told.value)
    assert store.info("a") is None


def test_a_body_that_ends_early_is_read_again(store, s3_proxy):
    data = bytes(range(256)) * 400
    store.write("a", data)
    s3_proxy.faults = [("GET", "truncate"), ("GET", "truncate")]
    assert store.read("a") == data
    assert s3_proxy.faults == []


def test_an_answer_that_was_lost_does_no_harm(store, s3_proxy):
    s3_proxy.faults = [("PUT", "lose")]
    tag = store.create("a", b"mine")  # done at the first request, refused at the second
    assert s3_proxy.seen.count("PUT") == 2
    assert store.read("a") == b"mine"
    s3_proxy.faults = [("PUT", "lose")]
    store.replace("a", b"changed", tag)
    assert store.read("a") == b"changed"
    with pytest.raises(FileExistsError):
        store.replace("a", b"late", tag)
    with pytest.raises(FileExistsError):
        store.create("a", b"other")
    assert store.read("a") == b"changed"


CONFLICT, ABORTED = s3.error(409, "ConditionalRequestConflict"), s3.error(409, "OperationAborted")


@pytest.mark.parametrize("fault", [CONFLICT, *slow([(ABORTED,)])], ids=["conditional", "aborted"])
def test_a_write_that_meets_another_is_tried_again(store, s3_proxy, fault):
    s3_proxy.faults = [("PUT", fault)] * 2
    tag = store.create("a", b"mine")
    s3_proxy.faults = [("PUT", fault)] * 2
    tag = store.replace("a", b"changed", tag)
    assert store.read_tagged("a") == (b"changed", tag)
    s3_proxy.faults = [("PUT", fault)]
    store.write("a", b"whole")
    assert store.read("a") == b"whole"
    assert s3_proxy.seen.count("PUT") == 8
    s3_proxy.faults = [("PUT", fault)] * 2  # whose object stands in the end is decided by the condition
    with pytest.raises(FileExistsError):
        store.create("a", b"other")
    s3_proxy.faults = [("PUT", fault)]
    with pytest.raises(FileExistsError):
        store.replace("a", b"late", tag)
    assert store.read("a") == b"whole"


def test_a_write_that_arrived_is_not_repeated_when_the_second_try_meets_it(store, s3_proxy):
    s3_proxy.faults = [("PUT", "lose"), ("PUT", CONFLICT)]
    tag = store.create("a", b"mine")
    assert s3_proxy.seen.count("PUT") == 2
    assert store.read_tagged("a") == (b"mine", tag)


def test_a_write_that_always_meets_others_fails_in_one_line(store, s3_proxy, monkeypatch):
    monkeypatch.setattr(object_store, "CONFLICTS", 3)
    s3_proxy.faults = [("PUT", CONFLICT)] * 3
    with pytest.raises(StorageError, match=r"/a: other writers keep changing it \(ConditionalRequestConflict\)$"):
        store.create("a", b"mine")
    assert s3_proxy.faults == []


def test_what_is_too_large_for_one_request_is_sent_in_parts(store, s3_proxy, monkeypatch):
    monkeypatch.setattr(object_store, "LARGEST_PUT", 2**20)
    monkeypatch.setattr(object_store, "PART", 5 * 2**20)
    data = bytes(range(256)) * 2**15 + b"end"
    s3_proxy.faults = [("PUT", SLOW), ("PUT", "drop"), ("POST", ""), ("POST", "lose")]
    tag = store.create("a", data)
    assert s3_proxy.faults == []
    assert s3_proxy.seen.count("PUT") == 4
    assert store.read_tagged("a") == (data, tag)
    tag = store.replace("a", data[1:], tag)
    assert s3_proxy.headers["If-Match"]
    assert store.read_tagged("a") == (data[1:], tag)
    s3_proxy.faults = [("POST", ""), ("POST", s3.error(412, "PreconditionFailed"))]
    with pytest.raises(FileExistsError):
        store.create("a", data)
    assert store.read("a") == data[1:]
    s3_proxy.faults = [("PUT", SLOW)] * 2
    with pytest.raises(StorageError, match="SlowDown it is"):
        replace(store, outage=0.05).write("a", data)
    assert s3_proxy.seen[-1] == "DELETE"  # of the unfinished upload
    assert store.read("a") == data[1:]


def test_what_was_deleted_is_not_replaced(store):
    tag = store.write("a", b"data")
    store.delete("a")
    with pytest.raises(FileExistsError, match=r"/a$"):
        store.replace("a", b"late", tag)
    assert store.info("a") is None


@pytest.mark.parametrize(
    ("answer", "kind", "line"),
    [
        (s3.error(400, "ExpiredToken"), StorageError, "the credentials have expired; renew them"),
        (s3.error(403, "AccessDenied"), InputError, "access denied"),
        (s3.error(403, "InvalidAccessKeyId"), InputError, "unknown access key; check"),
        (s3.error(404, "NoSuchBucket"), InputError, "no such bucket"),
    ],
    ids=["expired", "denied", "unknown key", "no bucket"],
)
def test_what_the_user_must_mend_is_said_in_one_line(store, s3_proxy, answer, kind, line):
    for method, work in (
        ("PUT", lambda: store.write("a", b"")),
        ("GET", lambda: store.read("a")),
        ("GET", store.children),
    ):
        s3_proxy.faults = [(method, answer)]
        with pytest.raises(kind, match=line) as told:
            work()
        assert "\n" not in str(told.value)
        assert "s3://bucket/" in str(told.value)


def test_an_answer_without_a_body_is_asked_for_again(store, s3_proxy):
    refused = [("HEAD", (400, b""))] * 2  # the second time botocore asks for the bucket's region
    s3_proxy.faults = [*refused, ("GET", s3.error(400, "ExpiredToken"))]
    with pytest.raises(StorageError, match="the credentials have expired"):
        store.info("a")
    tag = store.write("a", b"data")
    s3_proxy.faults = [*refused]
    assert store.info("a") == object_store.Info(4, tag)
    assert s3_proxy.faults == []


def test_without_credentials_the_next_request_looks_again(s3_server, monkeypatch, tmp_path):
    store = replace(ObjectStore.open(s3.address(s3_server)), patience=7.0)  # a client of its own
    with monkeypatch.context() as without:
        without.delenv("AWS_ACCESS_KEY_ID")
        for name in ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"):
            without.setenv(name, str(tmp_path / "none"))
        with pytest.raises(CredentialsError, match="no AWS credentials; set AWS_ACCESS_KEY_ID"):
            store.read("a")
    with pytest.raises(FileNotFoundError):
        store.read("a")


@pytest.mark.parametrize(
    ("uri", "line"),
    [
        ("gs://bucket/x", "use a local path or s3://"),
        ("s3://key:opensesame@bucket/x", "keys do not belong in an address"),
        ("s3://bucket/x#1?region=eu", "a prefix cannot have a '#' in it"),
        ("s3://bucket/x?regoin=eu", "unknown option regoin; expected endpoint_override, region, scheme"),
    ],
)
def test_addresses_that_cannot_be_meant(uri, line):
    with pytest.raises(InputError, match=line) as told:
        ObjectStore.open(uri)
    assert "opensesame" not in str(told.value)


def test_listings_are_paged_and_deletion_takes_what_is_below(store, monkeypatch):
    monkeypatch.setattr(object_store, "PAGE", 4)
    names = [f"n/{k:04d}" for k in range(13)]
    for name in names:
        store.write(name, b"")
    store.write("other/x", b"abc")
    store.write("n.json", b"1")
    assert sorted(store.children()) == ["n", "n.json", "other"]
    assert [name for name, _ in store.walk()] == sorted([*names, "n.json", "other/x"])
    assert store.holds("n")
    assert not store.holds("n/1")
    store.delete("n")
    assert sorted(store.children()) == ["n.json", "other"]
    assert {name: info.size for name, info in store.walk()} == {"n.json": 1, "other/x": 3}


def test_of_many_writers_one_creates(store):
    won: list[int] = []

    def write(number: int) -> None:
        try:
            store.create("a", str(number).encode())
        except FileExistsError:
            return
        won.append(number)

    threads = [threading.Thread(target=write, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [str(k).encode() for k in won] == [store.read("a")]


@pytest.mark.slow
def test_two_jobs_that_lack_a_folder_leave_one_manifest(s3_server):
    folder = Folder.open(s3.address(s3_server, "both")).child("features")
    made: list[str] = []

    def job(number: int) -> None:
        with folder.locked():
            if folder.read_manifest() is None:
                folder.write_text("shard", f"of {number}")
                folder.commit_manifest(["shard"], {"by": number})
                made.append(f"of {number}")

    threads = [threading.Thread(target=job, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [folder.read_text("shard")] == made
    assert folder.read_manifest() is not None
    assert folder.names() == ("manifest.json", "shard")


def test_a_manifest_of_another_writer_stands(s3_server, monkeypatch):
    folder = Folder.open(s3.address(s3_server, "manifests")).child("a")
    folder.write_text("x", "1")
    info = ObjectStore.info

    def slow(self: ObjectStore, name: str) -> object_store.Info | None:
        found = info(self, name)
        if name == "manifest.json" and found is None:  # another job commits between the look and the write
            monkeypatch.setattr(ObjectStore, "info", info)
            folder.commit_manifest(["x"], {"by": "another"})
        return found

    monkeypatch.setattr(ObjectStore, "info", slow)
    assert folder.commit_manifest(["x"], {"by": "this"})["by"] == "another"
    assert folder.read_json("manifest.json")["by"] == "another"


def test_a_manifest_that_was_removed_meanwhile_is_said_in_one_line(s3_server, monkeypatch):
    folder = Folder.open(s3.address(s3_server, "manifests")).child("b")
    folder.write_text("x", "1")
    folder.commit_manifest(["x"])
    info = ObjectStore.info

    def removed(self: ObjectStore, name: str) -> object_store.Info | None:
        found = info(self, name)
        if name == "manifest.json":
            self.delete(name)
        return found

    monkeypatch.setattr(ObjectStore, "info", removed)
    with pytest.raises(StorageError, match="another job is writing here; start again when it is done"):
        folder.commit_manifest(["x"])


def test_a_file_that_was_removed_meanwhile_is_not_written_over(s3_server):
    folder = Folder.open(s3.address(s3_server, "over")).child("a")
    tag = folder.write_over("x", b"1", "")
    folder.delete("x")
    with pytest.raises(StorageError, match="another job works on this; this one ends here"):
        folder.write_over("x", b"2", tag)


@pytest.mark.parametrize("header", ["If-None-Match", "If-Match"])
def test_a_server_that_ignores_conditions_is_refused(s3_proxy, request, monkeypatch, header):
    monkeypatch.setattr(object_store, "_CONDITIONAL", set())
    folder = Folder.open(s3.address_of(request, s3_proxy.place))
    s3_proxy.ignored = frozenset({header.lower()})
    line = rf"^s3://bucket/.*: the server ignores conditional writes \({header}\), on which leases rest; use "
    with pytest.raises(InputError, match=line) as refusal:
        folder.check_writable()
    assert "\n" not in str(refusal.value)
    assert folder.names() == ()
    s3_proxy.ignored = frozenset()
    folder.check_writable()
    before = s3_proxy.seen.count("PUT")
    folder.child("a").check_writable()  # the server was checked
    assert s3_proxy.seen.count("PUT") == before + 1
    assert folder.names() == ()
