"""A cluster that is gone is noticed within seconds, and named by the setting that leads to it."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest
import ray

from vse.cluster import runtime
from vse.cluster.address import check_answers
from vse.cluster.runtime import Config
from vse.errors import InputError

pytestmark = pytest.mark.usefixtures("bare_environment")


@contextlib.contextmanager
def listening(answer: bytes | None) -> Iterator[str]:
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
    monkeypatch.setattr("vse.cluster.address.SECONDS", 0.2)
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
