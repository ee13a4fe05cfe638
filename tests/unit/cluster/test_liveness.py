"""A job does not outlive the node process of this machine, whoever started it, and is left alone while that lives."""

import contextlib
import functools
import signal
import socket
import threading
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
import ray

from vse.cli.interrupts import terminated
from vse.cluster import ray_private, runtime
from vse.cluster.liveness import check_answers, is_up, watched
from vse.cluster.runtime import Config
from vse.errors import InputError


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
    monkeypatch.setattr(runtime, "_num_nodes", lambda: 1)
    monkeypatch.setattr(runtime, "watched", functools.partial(watched, every=0.02, grace=0.1))

    def wait_for_a_place() -> None:
        with runtime.running_ray(runtime.Config(address="10.0.0.4:6379")):
            assert not runtime.started_here()
            listener.close()
            time.sleep(30 if here else 0.5)

    if not here:
        wait_for_a_place()
        return
    begun = time.monotonic()
    with pytest.raises(RuntimeError, match=r"\(raylet\) on this machine has died"):
        wait_for_a_place()
    assert time.monotonic() - begun < 10


pytestmark = pytest.mark.usefixtures("bare_environment")


@contextlib.contextmanager
def listening(answer: bytes | None) -> Generator[str]:
    """The address of a server that says `answer` to whoever connects; None: it never accepts, as a stopped process."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        if answer is not None:

            def serve() -> None:
                with contextlib.suppress(OSError):  # nobody came, or left
                    while True:
                        connection, _ = server.accept()
                        with connection:
                            connection.sendall(answer)
                            connection.recv(1000)

            threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


def unused() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


GRPC = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


@pytest.mark.process
@pytest.mark.parametrize("form", ["{}", "ray://{}", "ray://{}/?namespace=x"])
def test_a_server_that_speaks_grpc_answers(form: str) -> None:
    with listening(GRPC) as address:
        check_answers(form.format(address), "x")


@pytest.mark.parametrize(
    "address", ["foo", "http://127.0.0.1:8265", "10.0.0.1", "10.0.0.1:ray", "host:0", "ray://host"]
)
def test_what_is_no_address_is_wrong_input(address: str) -> None:
    with pytest.raises(InputError, match=r"^x: expected host:port, ray://host:port, auto or local$"):
        check_answers(address, "x")


@pytest.mark.process
@pytest.mark.parametrize("form", ["{}", "ray://{}"])
@pytest.mark.parametrize("server", ["none", "silent", "another"])
def test_a_stale_variable_is_one_line_within_seconds(form: str, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vse.cluster.liveness.SECONDS", 0.2)
    monkeypatch.setattr(ray, "init", lambda **options: pytest.fail("asked Ray, which tries for minutes"))
    began = time.monotonic()
    with listening(None if server == "silent" else b"SSH-2.0-OpenSSH\r\n") as address:
        given = form.format(unused() if server == "none" else address)
        monkeypatch.setenv("RAY_ADDRESS", given)
        for config in (Config(), Config(address="auto")):
            with pytest.raises(InputError) as error, runtime.running_ray(config):
                pass
            why = {"none": r"[Errno 111] Connection refused", "silent": "timed out", "another": "not Ray"}[server]
            told = str(error.value)
            assert told.startswith(f"$RAY_ADDRESS={given}: no cluster answers (")
            assert server == "another" or why in told
            assert told.endswith("; unset RAY_ADDRESS, or set ray.address=local, to work without one")
    assert time.monotonic() - began < 5


def test_a_host_without_a_name_and_auto_without_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray, "init", lambda **options: pytest.fail("asked Ray"))
    monkeypatch.setenv("RAY_ADDRESS", "no.such.host.invalid:6379")
    with pytest.raises(InputError, match=r"^\$RAY_ADDRESS=no\.such\.host\.invalid:6379: no cluster answers \("):
        runtime.running_ray(Config()).__enter__()
    monkeypatch.delenv("RAY_ADDRESS")
    monkeypatch.setattr("ray._private.services.find_gcs_addresses", set)
    monkeypatch.setattr("ray._private.services.find_bootstrap_address", lambda folder: None)
    with pytest.raises(InputError, match=r"^ray\.address=auto: no cluster answers \(Could not find any running Ray"):
        runtime.running_ray(Config(address="auto")).__enter__()
