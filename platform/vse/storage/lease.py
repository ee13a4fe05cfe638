"""Objects of S3 that one job holds at a time, as it would a lock: written anew while it lives, taken over when it has
died."""

import contextlib
import logging
import threading
import time
import uuid
from collections.abc import Iterator, Set
from dataclasses import dataclass, replace

from vse.errors import InputError, TakenOver
from vse.storage.object_store import ObjectStore

log = logging.getLogger(__name__)

LEASE_SECONDS = 30.0
DEAD_AFTER = 1.5 * LEASE_SECONDS  # who waits so long has the lease of a holder that died
_LOST = "another job took this over while it was slow to answer"


@dataclass(frozen=True, slots=True)
class Held:
    """What a holder can show, in whichever process it is; without a store, a lock of the system, which is never lost.

    owner: what begins everything that the holder writes there.
    """

    store: ObjectStore | None = None
    name: str = ""
    owner: bytes = b""

    def check(self) -> None:
        """Raises TakenOver where another job took it over, as after this one was suspended for longer than its term."""
        if self.store is None:
            return
        try:
            mine = self.store.read(self.name).startswith(self.owner)
        except FileNotFoundError:  # the other one has ended
            mine = False
        if not mine:
            raise TakenOver(f"{self.store.uri}/{self.name}: {_LOST}; this one ends here")

    def mark(self) -> bytes:
        """What the holder writes next."""
        return self.owner + uuid.uuid4().hex.encode()


@contextlib.contextmanager
def lease(store: ObjectStore, name: str, seconds: float = LEASE_SECONDS, wait: float = float("inf")) -> Iterator[Held]:
    """Hold the object `name` while the body runs; others wait. Raises TimeoutError after `wait` seconds of it.

    The holder writes it anew every third of `seconds`, and at once where no answer came in as long: it may not be taken
    for dead. A write whose answer was lost may have been done, and what it wrote is the holder's own. Who waits takes
    it over when it has not changed for `seconds` by its own clock: no two clocks are compared, and a holder that died
    blocks nobody for long. Between two looks at most a third of `seconds` counts: a machine that stood still for
    longer may have held both. One that lives after all learns of it where it asks what is yielded.
    """
    held = Held(store, name, f"{uuid.uuid4().hex} ".encode())
    token = _take(held, seconds, wait)
    hurried = replace(store, patience=max(1.0, seconds / 3), attempts=1)
    over, lost, unanswered = threading.Event(), threading.Event(), set[bytes]()

    def renew() -> None:
        nonlocal token
        pause = seconds / 3
        while not over.wait(pause):
            mark = held.mark()
            try:
                token = _renewed(hurried, name, mark, token, unanswered)
            except (OSError, InputError) as error:  # credentials that are refused may be mended meanwhile
                if not unanswered:
                    log.warning("%s/%s: cannot be renewed (%s)", store.uri, name, error)
                unanswered.add(mark)
                pause = min(1.0, seconds / 30)
                continue
            if not token:
                lost.set()
                log.warning("%s/%s: %s", store.uri, name, _LOST)
                return
            unanswered.clear()
            pause = seconds / 3

    thread = threading.Thread(target=renew, name="lease", daemon=True)
    thread.start()
    try:
        yield held
    finally:
        over.set()
        thread.join()
        if not lost.is_set():
            with contextlib.suppress(OSError, InputError):
                _give_back(store, name, token, unanswered)


def _take(held: Held, seconds: float, wait: float) -> str:
    """The tag under which the object is ours."""
    store, name = held.store, held.name
    assert store is not None
    begun = last = time.monotonic()
    known, unchanged = "", 0.0
    while True:
        try:
            return store.create(name, held.mark())
        except FileExistsError:
            now, info = time.monotonic(), store.info(name)
        if info is None:
            continue
        unchanged = unchanged + min(now - last, seconds / 3) if info.tag == known else 0.0
        known, last = info.tag, now
        if unchanged >= seconds:
            with contextlib.suppress(FileExistsError):
                return store.replace(name, held.mark(), known)
        if now - begun >= wait:
            raise TimeoutError(f"{store.uri}/{name}: held by another job")
        time.sleep(min(1.0, seconds / 10))


def _renewed(store: ObjectStore, name: str, mark: bytes, token: str, unanswered: Set[bytes]) -> str:
    """The tag of what was written over the object of that tag, or over a write that was done unanswered; nothing where
    the object is another's."""
    try:
        return store.replace(name, mark, token)
    except FileExistsError:
        done = store.tag_of(name, unanswered)
        return store.replace(name, mark, done) if done else ""


def _give_back(store: ObjectStore, name: str, token: str, unanswered: Set[bytes]) -> None:
    """Delete the object of that tag, or of a write that was done unanswered. Another's stays: nobody may have renewed
    this one for long, as while the machine was suspended."""
    info = store.info(name)
    if info is not None and (info.tag == token or store.tag_of(name, unanswered)):
        store.delete(name)
