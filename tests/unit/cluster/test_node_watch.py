"""A job does not outlive the node process of a Ray that it started, and is left alone while that lives."""

import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from vse.cluster.node_watch import is_up, watched
from vse.command import _terminated


@pytest.fixture
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, socket.socket]]:
    """Ray's folder of a session, and the socket on which its raylet answers."""
    folder = tmp_path_factory.mktemp("s")
    (folder / "sockets").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "sockets" / "raylet"))
        listener.listen()
        yield folder, listener


@pytest.fixture
def as_a_job() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, _terminated)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("as_a_job")
def test_what_waits_is_interrupted_when_the_node_is_lost(session: tuple[Path, socket.socket]) -> None:
    folder, listener = session
    started = time.monotonic()

    def wait_for_a_place() -> None:
        with watched(folder, 0.02, 0.1):
            time.sleep(0.3)
            assert is_up(folder)
            listener.close()
            time.sleep(30)

    with pytest.raises(RuntimeError, match=r"\(raylet\) on this machine has died"):
        wait_for_a_place()
    assert time.monotonic() - started < 10


@pytest.mark.usefixtures("as_a_job")
def test_a_user_who_ends_the_job_is_not_told_of_nodes(session: tuple[Path, socket.socket]) -> None:
    with pytest.raises(SystemExit) as ended, watched(session[0], 0.02, 0.1):
        signal.raise_signal(signal.SIGTERM)
    assert ended.value.code == 128 + signal.SIGTERM


def test_a_process_that_would_die_of_it_is_only_warned(
    session: tuple[Path, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    assert not callable(signal.getsignal(signal.SIGTERM))
    with watched(session[0], 0.02, 0.1):
        session[1].close()
        time.sleep(0.5)
    assert "has died" in caplog.text
    assert not [thread for thread in threading.enumerate() if thread.name == "vse-node-watch"]
