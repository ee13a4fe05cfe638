"""Leases in an object store: one holder at a time, who is told when it is one no more."""

import contextlib
import pickle
import threading
import time
from dataclasses import replace

import pytest

from tests import s3
from vse.errors import TakenOver
from vse.storage.lease import LeaseHandle, lease
from vse.storage.object_store import Info, ObjectStore


@pytest.fixture
def store(s3_proxy: s3.Proxy, request: pytest.FixtureRequest) -> ObjectStore:
    return ObjectStore.open(s3.address_of(request, s3_proxy.place))


DENIED = s3.error(403, "AccessDenied")


def test_a_lease_is_held_by_one(store):
    inside, most, entered = [], [], []

    def work(number: int) -> None:
        with lease(store, "lock", seconds=3.0):
            inside.append(number)
            most.append(len(inside))
            time.sleep(0.1)
            inside.remove(number)
            entered.append(number)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(entered) == [0, 1, 2, 3]
    assert max(most) == 1
    assert store.info("lock") is None


def test_a_lease_of_the_dead_is_taken_over_and_of_the_living_is_not(store):
    store.write("lock", b"of a job that was killed")
    begun = time.monotonic()
    with lease(store, "lock", seconds=1.0):
        assert time.monotonic() - begun >= 1.0
        with pytest.raises(TimeoutError, match="held by another job"), lease(store, "lock", seconds=1.0, wait=2.5):
            raise AssertionError("entered")  # the holder renews it every third of a second
    assert store.info("lock") is None


@pytest.mark.slow
def test_a_lease_of_the_living_is_not_taken_over_by_one_who_stood_still(store, monkeypatch):
    """A machine that is suspended, or busy with others, for longer than the term: holder and waiter both."""
    real, stood = time.monotonic, [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: real() + stood[0])
    store.write("lock", b"of a job that is suspended with this one")
    looks = 0
    look = ObjectStore.info

    def looking(self: ObjectStore, name: str) -> Info | None:
        nonlocal looks
        looks += 1
        if looks == 3:
            stood[0] += 60.0
        if looks == 5:  # the holder goes on as well, a little later
            store.write("lock", b"of a job that goes on")
        return look(self, name)

    monkeypatch.setattr(ObjectStore, "info", looking)
    with lease(store, "lock", seconds=1.0):
        assert looks >= 5 + 3  # a third of the term each, at most, from the write on


@pytest.mark.slow
def test_a_lease_is_kept_through_an_answer_that_never_comes(store, s3_proxy, s3_server, caplog):
    rival = replace(store, endpoint=f"http://{s3_server}")
    with lease(store, "lock", seconds=6.0):
        s3_proxy.faults = [("PUT", "stall")]  # the holder's next renewal
        with pytest.raises(TimeoutError, match="held by another job"), lease(rival, "lock", seconds=6.0, wait=8.5):
            raise AssertionError("entered")
        assert s3_proxy.faults == []
    assert "took this over" not in caplog.text


@pytest.mark.slow
def test_a_lease_is_kept_where_every_write_is_done_and_its_answer_lost(store, s3_proxy, s3_server, caplog):
    rival = replace(store, endpoint=f"http://{s3_server}")
    with lease(store, "lock", seconds=3.0):
        s3_proxy.faults = [("PUT", "lose")] * 4
        with pytest.raises(TimeoutError, match="held by another job"), lease(rival, "lock", seconds=3.0, wait=8.0):
            raise AssertionError("entered")
        assert s3_proxy.faults == []
    assert "took this over" not in caplog.text
    assert store.info("lock") is None


@pytest.mark.slow
def test_a_lease_whose_holder_leaves_while_it_is_taken_over_is_had(store, monkeypatch):
    store.write("lock", b"of another")
    replace, left = ObjectStore.replace, []

    def leaving(self: ObjectStore, name: str, data: bytes, tag: str) -> str:
        if not left:
            left.append(name)
            self.delete(name)
        return replace(self, name, data, tag)

    monkeypatch.setattr(ObjectStore, "replace", leaving)
    with lease(store, "lock", seconds=0.6):
        assert left == ["lock"]
        assert store.info("lock") is not None
    assert store.info("lock") is None


@pytest.mark.slow
def test_a_lease_that_another_took_and_gave_back_is_lost(store, caplog):
    with lease(store, "lock", seconds=0.6):
        store.delete("lock")
        time.sleep(0.9)  # four times of writing it anew
    assert store.info("lock") is None
    assert caplog.text.count("took this over") == 1
    assert "cannot renew the lease" not in caplog.text


def test_a_lease_that_was_lost_is_left_to_the_other(store, caplog):
    with lease(store, "lock", seconds=0.6):
        store.write("lock", b"of another")
        time.sleep(0.5)
    assert store.read("lock") == b"of another"
    assert "took this over" in caplog.text


DENIED = s3.error(403, "AccessDenied")


@pytest.mark.slow
def test_a_lease_outlives_refusals(store, s3_proxy, s3_server, caplog):
    """Credentials are refused for a while, as when they are replaced."""
    rival = replace(store, endpoint=f"http://{s3_server}")
    with lease(store, "lock", seconds=6.0):
        s3_proxy.faults = [("PUT", DENIED)] * 3
        with pytest.raises(TimeoutError, match="held by another job"), lease(rival, "lock", seconds=6.0, wait=8.5):
            raise AssertionError("entered")
        assert s3_proxy.faults == []
    assert caplog.text.count("cannot renew the lease") == 1
    assert "took this over" not in caplog.text
    assert store.info("lock") is None


@pytest.mark.slow
def test_who_was_refused_for_long_leaves_the_lease_to_its_next_holder(store, s3_proxy, s3_server):
    rival = replace(store, endpoint=f"http://{s3_server}")
    with contextlib.ExitStack() as second:
        with lease(store, "lock", seconds=1.0):
            s3_proxy.faults = [("PUT", DENIED)] * 1000
            second.enter_context(lease(rival, "lock", seconds=1.0))
        with pytest.raises(TimeoutError, match="held by another job"), lease(rival, "lock", seconds=1.0, wait=0.0):
            raise AssertionError("entered")
    assert rival.info("lock") is None


def test_a_holder_is_told_whether_it_still_is_one(store, s3_proxy):
    """At once, before its next renewal: it may have been suspended since the last. It may ask from another process."""
    s3_proxy.faults = []
    with lease(store, "lock", seconds=60.0) as held:
        elsewhere = pickle.loads(pickle.dumps(held))
        for each in (held, elsewhere):
            each.check()
        store.delete("lock")  # taken over and given back
        with pytest.raises(
            TakenOver, match=r"lock: another job took this over because this one did not answer in time; this one"
        ):
            elsewhere.check()
        with lease(store, "lock", seconds=60.0) as other:
            other.check()
            with pytest.raises(TakenOver, match="another job took this over"):
                held.check()
    with lease(store, "lock", seconds=0.3) as held:
        time.sleep(1.0)  # it has been renewed meanwhile
        held.check()
    LeaseHandle().check()  # a lock of the system


def test_who_was_suspended_leaves_the_lease_to_its_next_holder(store):
    """The clock of its renewals stood still meanwhile, and the first thing it does is to leave."""
    with lease(store, "lock", seconds=60.0):
        store.write("lock", b"of another, that took it over")
    assert store.read("lock") == b"of another, that took it over"


def test_an_object_that_is_there_for_writes_only_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that says both that the object exists and that it does not."""
    looks = list[float]()

    def create(self: ObjectStore, name: str, data: bytes) -> str:
        raise FileExistsError(name)

    def info(self: ObjectStore, name: str) -> None:
        looks.append(time.monotonic())
        assert len(looks) < 20, "no pause between two looks"

    monkeypatch.setattr(ObjectStore, "create", create)
    monkeypatch.setattr(ObjectStore, "info", info)
    store = ObjectStore("bucket", "x")
    with pytest.raises(TimeoutError, match="held by another job"), lease(store, "lock", seconds=0.2, wait=0.1):
        raise AssertionError("entered")
