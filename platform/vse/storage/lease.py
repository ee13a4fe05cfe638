"""Leases on S3 objects: a job holds an object while it lives; another job takes it over after its death."""

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Generator
from dataclasses import dataclass, replace

from vse.errors import InputError, TakenOver
from vse.storage.object_store import ObjectStore
from vse.storage.owned_object import OwnedObject

log = logging.getLogger(__name__)

LEASE_SECONDS = 30.0
DEAD_AFTER = 1.5 * LEASE_SECONDS  # seconds after which a waiting job has the lease of a holder that died
_LOST = "another job took this over because this one did not answer in time"


@dataclass(frozen=True, slots=True)
class LeaseHandle:
    """Proof of a lease, valid in every process of the job. Without a store it stands for a local lock, never lost.

    Args:
        owner: the first bytes of everything the holder writes to the object.
    """

    store: ObjectStore | None = None
    name: str = ""
    owner: bytes = b""

    def check(self) -> None:
        """Raise TakenOver if another job has the lease, for instance because this one was suspended for too long."""
        if self.store is None:
            return
        try:
            own = self.store.read(self.name).startswith(self.owner)
        except FileNotFoundError:  # the other job has ended
            own = False
        if not own:
            raise TakenOver(f"{self.store.uri}/{self.name}: {_LOST}; this one ends here")

    def mark(self) -> bytes:
        """The content of the holder's next write."""
        return self.owner + uuid.uuid4().hex.encode()


@contextlib.contextmanager
def lease(
    store: ObjectStore, name: str, seconds: float = LEASE_SECONDS, wait: float = float("inf")
) -> Generator[LeaseHandle]:
    """Hold the object `name` while the body runs; other jobs wait.

    The holder rewrites the object every third of `seconds`, and retries sooner if no answer came. A write whose answer
    was lost may have succeeded, so its content counts as the holder's own. A waiting job takes the object over once it
    has not changed for `seconds` by the waiting job's own clock: no two clocks are compared. Between two looks at most
    a third of `seconds` counts, because a machine that stood still may have suspended both jobs. A holder that turns
    out to be alive gets `TakenOver` from `LeaseHandle.check`.

    Args:
        store: where the object is.
        name: of the object.
        seconds: term of the lease.
        wait: seconds to wait for another holder.

    Raises:
        TimeoutError: if another job holds the lease for `wait` seconds.
    """
    handle = LeaseHandle(store, name, f"{uuid.uuid4().hex} ".encode())
    hurried = replace(store, patience=max(1.0, seconds / 3), outage=0.0)
    own = OwnedObject(hurried, name, _take(handle, seconds, wait))
    over, lost = threading.Event(), threading.Event()

    def renew() -> None:
        pause, answered = seconds / 3, True
        while not over.wait(pause):
            try:
                own.write(handle.mark())
            except FileExistsError:
                lost.set()
                log.warning("%s/%s: %s", store.uri, name, _LOST)
                return
            except (OSError, InputError) as error:  # the user may replace refused credentials meanwhile
                if answered:
                    log.warning("%s/%s: cannot renew the lease (%s); trying again", store.uri, name, error)
                pause, answered = min(1.0, seconds / 30), False
                continue
            pause, answered = seconds / 3, True

    thread = threading.Thread(target=renew, name="lease", daemon=True)
    thread.start()
    try:
        yield handle
    finally:
        over.set()
        thread.join()
        if not lost.is_set():
            with contextlib.suppress(OSError, InputError):
                _release(store, own)


def _take(handle: LeaseHandle, seconds: float, wait: float) -> str:
    """Wait for the object and write it; returns its tag."""
    store, name = handle.store, handle.name
    assert store is not None
    began = last = time.monotonic()
    last_tag, unchanged = "", 0.0
    while True:
        try:
            return store.create(name, handle.mark())
        except FileExistsError:
            now, info = time.monotonic(), store.info(name)
        tag = info.tag if info is not None else ""  # none if the holder has released it since `create`
        unchanged = unchanged + min(now - last, seconds / 3) if tag and tag == last_tag else 0.0
        last_tag, last = tag, now
        if unchanged >= seconds:
            with contextlib.suppress(FileExistsError):
                return store.replace(name, handle.mark(), last_tag)
        if now - began >= wait:
            raise TimeoutError(f"{store.uri}/{name}: held by another job")
        time.sleep(min(1.0, seconds / 10))


def _release(store: ObjectStore, own: OwnedObject) -> None:
    """Delete the object if its tag or content is ours; another job may have taken it over while we were suspended."""
    info = store.info(own.name)
    if info is not None and (info.tag == own.tag or store.tag_of(own.name, own.unanswered)):
        store.delete(own.name)
