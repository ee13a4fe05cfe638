"""Servers as processes of their own that can be killed and started again on the same port: MLflow's, and one of S3."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def wait_for(attempt: Callable[[], object], seconds: float = 120) -> None:
    """Try until it raises neither OSError nor AssertionError; after `seconds` its last error is raised."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            attempt()
            return
        except (OSError, AssertionError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


class Server:
    """A program that listens on 127.0.0.1; `start` and `stop` as often as wanted.

    arguments: of the Python interpreter; health: a path that is answered once it serves; variables: are added to its
    environment. What it says is appended to a log in `folder`.
    """

    def __init__(self, name: str, arguments: list[str], port: int, health: str, folder: Path, **variables: str) -> None:
        self.name, self.port, self.health = name, port, health
        self.uri = f"http://127.0.0.1:{port}"
        self.log = (folder / f"{name.replace(' ', '-')}.log").open("ab")
        self.command = [sys.executable, *arguments]
        self.variables = {**os.environ, **variables}
        self.process: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        """Start it, without waiting until it serves."""
        assert self.process is None, f"{self.name} runs already"
        self.process = subprocess.Popen(
            self.command, cwd=ROOT, stdout=self.log, stderr=self.log, start_new_session=True, env=self.variables
        )

    def wait(self, seconds: float = 240) -> None:
        """Return once it serves."""
        wait_for(lambda: urllib.request.urlopen(self.uri + self.health, timeout=5).close(), seconds)

    def start(self) -> None:
        """Start it and wait until it serves."""
        self.launch()
        self.wait()

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal to it and all its workers; nothing happens where it is not running."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, how)
            self.process.wait()
            self.process = None


def mlflow_server(store: str, artifacts: str, folder: Path, port: int = 0, **variables: str) -> Server:
    """`mlflow server` over a store (an address that SQLAlchemy understands), which hands artifacts on."""
    port = port or free_port()
    arguments = ["-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    arguments += ["--backend-store-uri", store, "--artifacts-destination", artifacts]
    quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", **variables}
    return Server("mlflow server", arguments, port, "/health", folder, **quiet)


def s3_server(objects: Path, folder: Path, port: int = 0) -> Server:
    """A server of S3's protocol that keeps its objects in a folder (`tests.s3_on_disk`)."""
    port = port or free_port()
    arguments = ["-m", "tests.s3_on_disk", str(objects), str(port)]
    return Server("s3 server", arguments, port, "/moto-api/data.json", folder, PYTHONPATH=str(ROOT))


@contextlib.contextmanager
def serving(*servers: Server) -> Generator[None]:
    """Servers that serve while the body runs."""
    try:
        for server in servers:
            server.launch()
        for server in servers:
            server.wait()
        yield
    finally:
        for server in servers:
            server.stop(signal.SIGKILL)
            server.log.close()
