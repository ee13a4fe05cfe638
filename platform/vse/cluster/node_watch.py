"""Ends a job when Ray's node process on this machine is lost: whatever waits for a place on it would wait forever.

Ray reports the loss to the owners of tasks and actors on the node, but not to Tune while it waits to place an actor,
nor to a Ray Train controller that has not started yet.
"""

import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

log = logging.getLogger(__name__)

RAY = Path("/tmp/ray")  # where Ray has the files of its sessions on every node
EVERY = 2.0  # seconds between looks
GRACE = 10.0  # seconds for the job to notice by itself


def session_of(ray: Path = RAY) -> Path:
    """The folder of the session that began last, named by when it did."""
    return (ray / "session_latest").resolve()


def is_up(raylet: Path) -> bool:
    """Whether a raylet answers on its socket, a path on this machine."""
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(raylet))
        except OSError:
            return False
    return True


@contextlib.contextmanager
def watched(raylet: Path, every: float = EVERY, grace: float = GRACE) -> Iterator[None]:
    """Raises RuntimeError in the body, which the main thread runs, once the raylet has been gone for `grace` seconds.

    It comes as the SIGTERM that jobs end by, since only a signal interrupts what waits inside Ray; a process that would
    die of that is told by a warning instead.
    """
    over, lost = threading.Event(), threading.Event()

    def watch() -> None:
        gone = 0.0
        while gone < grace:
            if over.wait(every):
                return
            gone = 0.0 if is_up(raylet) else gone + every
        lost.set()
        if callable(signal.getsignal(signal.SIGTERM)):
            os.kill(os.getpid(), signal.SIGTERM)
        else:
            log.warning("%s", _LOST)

    thread = threading.Thread(target=watch, name="vse-node-watch", daemon=True)
    thread.start()
    try:
        yield
    except SystemExit:
        if lost.is_set():
            raise RuntimeError(_LOST) from None
        raise
    finally:
        over.set()
        thread.join()


_LOST = "Ray's node process (raylet) on this machine has died"
