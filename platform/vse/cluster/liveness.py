"""Whether Ray answers: the cluster at an address, and the node process (raylet) of this machine.

`ray.init` tries an address for a quarter of an hour; `check_answers` needs seconds. Ray reports a lost node process to
the owners of tasks and actors, but not to Tune while it waits to place an actor, nor to a Ray Train controller that
has not started yet. `watched` ends a job that would wait forever.
"""

import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from vse.cluster import ray_private
from vse.errors import InputError

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


SECONDS = 5.0  # for a connection, and again for the first bytes
_CLIENT = "ray://"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # and no settings of ours
_SETTINGS = 4  # the kind of frame that every server of HTTP/2, such as those of gRPC, answers with


def check_answers(address: str, named: str) -> None:
    """Connect to `address` (host:port, ray://host:port, or auto) and see that gRPC is spoken there.

    Args:
        address: As `ray.init` takes it.
        named: The setting it comes from, for errors.

    Raises:
        InputError: The address is none of these.
        OSError: Nobody answers, or the host's name is unknown. ConnectionError where `auto` finds no cluster.
    """
    where = ray_private.address_of_cluster() if address == "auto" else address.removeprefix(_CLIENT)
    host, _, port = where.partition("?")[0].rstrip("/").rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise InputError(f"{named}: expected host:port, {_CLIENT}host:port, auto or local")
    with socket.create_connection((host.strip("[]"), int(port)), SECONDS) as connection:
        if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
            return
        connection.sendall(_PREFACE)
        if connection.recv(4)[3:] != bytes([_SETTINGS]):
            raise ConnectionError("what listens there is not Ray")
