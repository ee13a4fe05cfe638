"""MLflow's store as the shipper uses it, where a server is slow."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from vse.tracking.store import Store

SECONDS = 1  # that an answer may take
_RUN = {"run_id": "1", "run_uuid": "1", "experiment_id": "1", "status": "RUNNING", "start_time": 1, "artifact_uri": "x"}


@pytest.fixture
def slow() -> Iterator[tuple[str, list[str]]]:
    """(address, requests) of a server that makes a run at once and says so too late."""
    heard: list[str] = []

    class Slow(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            heard.append(f"{self.command} {self.path.partition('?')[0]}")
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            found = {"experiment": {"experiment_id": "1", "name": "vse", "lifecycle_stage": "active"}}
            if self.path.endswith("runs/create"):
                time.sleep(2 * SECONDS)
            body = json.dumps({**found, "run": {"info": {**_RUN, "lifecycle_stage": "active"}, "data": {}}}).encode()
            try:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)
            except OSError:
                pass  # nobody waits for it any more

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on the console."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", heard
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.process
@pytest.mark.slow
def test_a_run_that_was_made_too_slowly_is_not_asked_for_twice(
    slow: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What looks for it, and makes it where it is missing, is the shipper's next pass."""
    address, heard = slow
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", str(SECONDS))
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", raising=False)
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR", raising=False)
    with pytest.raises(Exception, match="timed out"):
        Store(address).find_or_create("vse", "a", name="a", started=1)
    time.sleep(2 * SECONDS)  # as long as another try would take
    assert heard.count("POST /api/2.0/mlflow/runs/create") == 1
