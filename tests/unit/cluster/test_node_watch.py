"""A job does not outlive the node process of this machine, whoever started it, and is left alone while that lives."""

import functools
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from vse.cli.interrupts import terminated
from vse.cluster import ray_private, runtime
from vse.cluster.node_watch import is_up, watched


@pytest.fixture
def raylet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, socket.socket]]:
    """The socket on which a raylet answers: its path and what listens."""
    path = tmp_path_factory.mktemp("s") / "raylet"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        yield path, listener


@pytest.fixture
def as_a_job() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, terminated)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("as_a_job")
def test_what_waits_is_interrupted_when_the_node_is_lost(raylet: tuple[Path, socket.socket]) -> None:
    path, listener = raylet
    started = time.monotonic()

    def wait_for_a_place() -> None:
        with watched(path, 0.02, 0.1):
            time.sleep(0.3)
            assert is_up(path)
            listener.close()
            time.sleep(30)

    with pytest.raises(RuntimeError, match=r"\(raylet\) on this machine has died"):
        wait_for_a_place()
    assert time.monotonic() - started < 10


@pytest.mark.usefixtures("as_a_job")
def test_a_user_who_ends_the_job_is_not_told_of_nodes(raylet: tuple[Path, socket.socket]) -> None:
    with pytest.raises(SystemExit) as ended, watched(raylet[0], 0.02, 0.1):
        signal.raise_signal(signal.SIGTERM)
    assert ended.value.code == 128 + signal.SIGTERM


def test_a_process_that_would_die_of_it_is_only_warned(
    raylet: tuple[Path, socket.socket], caplog: pytest.LogCaptureFixture
) -> None:
    assert not callable(signal.getsignal(signal.SIGTERM))
    with watched(raylet[0], 0.02, 0.1):
        raylet[1].close()
        time.sleep(0.5)
    assert "has died" in caplog.text
    assert not [thread for thread in threading.enumerate() if thread.name == "vse-node-watch"]


@pytest.mark.usefixtures("as_a_job", "bare_environment")
@pytest.mark.parametrize("here", [True, False], ids=["of this machine", "of another"])
def test_a_driver_of_a_joined_cluster_is_interrupted_too(
    raylet: tuple[Path, socket.socket], monkeypatch: pytest.MonkeyPatch, here: bool
) -> None:
    import ray

    path, listener = raylet
    socket = path if here else None
    monkeypatch.setattr(ray, "init", lambda **options: None)
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setattr(ray_private, "raylet_socket", lambda: socket)
    monkeypatch.setattr(runtime, "_session", lambda started: started)
    monkeypatch.setattr(runtime, "watched", functools.partial(watched, every=0.02, grace=0.1))

    def wait_for_a_place() -> None:
        with runtime.running_ray(runtime.Config(address="10.0.0.4:6379")) as started:
            assert not started
            listener.close()
            time.sleep(30 if here else 0.5)

    if not here:
        wait_for_a_place()
        return
    begun = time.monotonic()
    with pytest.raises(RuntimeError, match=r"\(raylet\) on this machine has died"):
        wait_for_a_place()
    assert time.monotonic() - begun < 10
