"""Tracking servers on loopback for jobs to speak to: one that serves and remembers every byte, one that only fails."""

import contextlib
import json
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Memory:
    """What a server was sent, and the runs it was told of."""

    def __init__(self, artifacts: str = "") -> None:
        self.artifacts = artifacts  # address of the folder where files of runs go
        self.requests: list[bytes] = []
        self.authorized: list[str] = []
        self.runs: dict[str, dict[str, Any]] = {}

    def answer(self, path: str, sent: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and body of MLflow's answer to one call of its REST interface."""
        match path.rpartition("/mlflow/")[2]:
            case "experiments/get-by-name":
                return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "none yet"}
            case "experiments/create":
                return 200, {"experiment_id": "1"}
            case "runs/search":
                wanted = sent["filter"].split("'")[1]
                return 200, {"runs": [r for r in self.runs.values() if _tag(r, "vse.run_id") == wanted]}
            case "runs/create":
                run_id = f"{len(self.runs):032x}"
                info = {"run_id": run_id, "run_uuid": run_id, "experiment_id": "1", "status": "RUNNING"}
                info |= {"artifact_uri": f"{self.artifacts}/{run_id}", "lifecycle_stage": "active"}
                info |= {"run_name": sent.get("run_name", ""), "start_time": 0}
                self.runs[run_id] = {"info": info, "data": {"tags": sent.get("tags", [])}}
                return 200, {"run": self.runs[run_id]}
            case "runs/get":
                return 200, {"run": self.runs[sent["run_id"]]}
            case "runs/update":
                info = self.runs[sent["run_id"]]["info"]
                info.update({k: sent[k] for k in ("status", "run_name") if k in sent})
                return 200, {"run_info": info}
            case "model-versions/create":
                return 200, {"model_version": {"name": sent["name"], "version": "1", "status": "READY"}}
        return 200, {}


def _tag(run: dict[str, Any], key: str) -> str:
    return next((tag["value"] for tag in run["data"]["tags"] if tag["key"] == key), "")


@contextlib.contextmanager
def serving(memory: Memory | None) -> Generator[str]:
    """host:port of a server with this memory; of one that answers 500 to everything where it is None."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if memory is None:
                self._reply(500, {})
                return
            path, _, query = self.path.partition("?")
            memory.requests.append(self.path.encode() + b" " + body)
            memory.authorized.append(self.headers.get("Authorization") or "")
            sent = json.loads(body) if body else dict(pair.split("=", 1) for pair in query.split("&") if pair)
            self._reply(*memory.answer(path, sent))

        def do_GET(self) -> None:
            self.do_POST()

        def _reply(self, status: int, content: dict[str, Any]) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing on the console."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
