"""Whether Ray answers: the cluster at an address, and the node process (raylet) of this machine.

`ray.init` tries an address for a quarter of an hour; `check_answers` needs seconds. Ray reports a lost raylet to the
owners of tasks and actors, but not to Tune while it waits to place an actor, and not to a Ray Train controller before
its start. `watched` ends a job that would wait forever.
"""

import contextlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Generator
from pathlib import Path

from vse.cluster import ray_private
from vse.errors import InputError

log = logging.getLogger(__name__)

RAY = Path("/tmp/ray")  # folder of Ray's sessions on every node
EVERY = 2.0  # seconds between checks
GRACE = 10.0  # seconds in which the job may fail by itself
_LOST = "Ray's node process (raylet) on this machine has died"
SECONDS = 5.0  # timeout of a connection, and of its first bytes
_CLIENT = "ray://"
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # with empty settings
_SETTINGS = 4  # type of the first frame of every HTTP/2 server, such as gRPC's


def session_of(ray: Path = RAY) -> Path:
    """The folder of the session that started last; its name has the time of the start."""
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
def watched(raylet: Path, every: float = EVERY, grace: float = GRACE) -> Generator[None]:
    """Raise RuntimeError in the body, on the main thread, once the raylet has been gone for `grace` seconds.

    Only a signal interrupts calls that wait inside Ray, so the process gets the SIGTERM that ends jobs. A process
    without a handler would die of that and logs a warning instead.

    Args:
        raylet: socket of the raylet on this machine.
        every: seconds between checks.
        grace: seconds in which the job may fail by itself.
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


def check_answers(address: str, setting: str) -> None:
    """Connect to `address` (host:port, ray://host:port, or auto) and check that a gRPC server answers.

    Args:
        address: as for `ray.init`.
        setting: the setting it comes from, for errors.

    Raises:
        InputError: if the address has another form.
        OSError: if nothing answers, the host's name is unknown, or `auto` finds no cluster (ConnectionError).
    """
    target = ray_private.address_of_cluster() if address == "auto" else address.removeprefix(_CLIENT)
    host, _, port = target.partition("?")[0].rstrip("/").rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise InputError(f"{setting}: expected host:port, {_CLIENT}host:port, auto or local")
    with socket.create_connection((host.strip("[]"), int(port)), SECONDS) as connection:
        if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
            return
        connection.sendall(_PREFACE)
        if connection.recv(4)[3:] != bytes([_SETTINGS]):
            raise ConnectionError("the server there is not Ray")
