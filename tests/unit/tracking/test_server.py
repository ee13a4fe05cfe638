"""A real MLflow server that goes away and comes back, on SQLite and on PostgreSQL, with its artifacts on S3.

Databases and artifacts are the server's business; what counts is that everything arrives, once.
"""

import contextlib
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.servers import free_port, mlflow_server, serving, wait_for
from tests.unit.tracking.test_aliases import ADDRESS, offer
from tests.unit.tracking.test_shipping import write_run
from vse.tracking import models
from vse.tracking.shipping import Shipper
from vse.workspace.journal import Journal

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
SHORT = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "5", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
_POSTGRES = Path("/usr/lib/postgresql")


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for name, value in SHORT.items():
        monkeypatch.setenv(name, value)


def runs_of(uri: str) -> dict[str, Any]:
    """Runs by their permanent id; each must be there once."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    found = client.search_runs([e.experiment_id for e in client.search_experiments()], max_results=1000)
    runs = {run.data.tags["vse.run_id"]: run for run in found}
    assert len(runs) == len(found), "a run is there twice"
    return runs


def steps_of(uri: str, run: Any, key: str) -> list[tuple[int, float]]:
    from mlflow import MlflowClient

    return [(m.step, m.value) for m in MlflowClient(tracking_uri=uri).get_metric_history(run.info.run_id, key)]


def test_a_server_that_goes_away_while_runs_write_gets_everything_once(tmp_path: Path) -> None:
    """Two runs write an epoch every 0.1 s while the server is killed and started again, twice."""
    workspace, over, epochs = tmp_path / "workspace", threading.Event(), dict[str, int]()
    server = mlflow_server(f"sqlite:///{tmp_path}/server.db", str(tmp_path / "art"), tmp_path)

    def train(name: str, book: Journal) -> None:
        epoch = 2
        for epoch in itertools.count(3):
            book.metrics({"train/loss": 1.0 / epoch, "val/rsum": 100.0 + epoch}, step=epoch)
            if epoch % 20 == 0:
                table = book.path.with_name(f"table-{epoch}.json")
                table.write_text("{}")
                book.artifact(table, under="tables")
            if over.wait(0.1) and epoch % 20 == 0:
                break
        epochs[name] = epoch
        book.end("finished" if name == "a" else "failed")

    books = {name: write_run(workspace, name, parent="sweep") for name in ("a", "b")}
    with serving(server):
        shipper = Shipper(str(workspace), server.uri)
        spooled = []
        with shipper.every(0.3):
            threads = [threading.Thread(target=train, args=pair) for pair in books.items()]
            for thread in threads:
                thread.start()
            for _ in range(2):
                time.sleep(2)
                server.stop()
                time.sleep(2)
                spooled.append(sum(waits for *_, waits in shipper.survey()))
                server.start()
            over.set()
            for thread in threads:
                thread.join()
        wait_for(lambda: _need(shipper.ship(wait=10).waiting == 0))
        assert spooled == [2, 2]
        runs = runs_of(server.uri)
        assert runs.keys() == {"a", "b", "sweep"}
        assert [runs[name].info.status for name in "ab"] == ["FINISHED", "FAILED"]
        for name in "ab":
            found = steps_of(server.uri, runs[name], "train/loss")
            assert found == [(epoch, pytest.approx(1.0 / epoch)) for epoch in range(1, epochs[name] + 1)]
            assert len(_artifacts(server.uri, runs[name], "tables")) == epochs[name] // 20


def test_a_server_whose_database_was_lost_is_filled_again(tmp_path: Path) -> None:
    """All runs had ended, so no journal says anything new."""
    write_run(tmp_path / "w", "a").end()
    server = mlflow_server(f"sqlite:///{tmp_path}/server.db", str(tmp_path / "art"), tmp_path)
    with serving(server):
        assert Shipper(str(tmp_path / "w"), server.uri).ship().runs == 1
        assert Shipper(str(tmp_path / "w"), server.uri).ship().runs == 0
        server.stop(signal.SIGKILL)
        for file in tmp_path.glob("server.db*"):
            file.unlink()
        server.start()
        assert Shipper(str(tmp_path / "w"), server.uri).ship().runs == 1
        assert set(runs_of(server.uri)) == {"a"}


def test_a_database_that_is_brought_back_gets_what_came_after_from_the_job_that_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs came after the copy; one of them has ended, and says nothing more. The alias stays where it was."""
    monkeypatch.setattr(models, "save", lambda packed, target: shutil.copytree(packed, target))  # without the code
    workspace, database = tmp_path / "w", tmp_path / "server.db"
    server = mlflow_server(f"sqlite:///{database}", str(tmp_path / "art"), tmp_path)
    with serving(server):
        shipper = Shipper(str(workspace), server.uri)
        offer(workspace, "z")
        assert shipper.ship().models == {ADDRESS: 1}
        offer(workspace, "a")
        assert shipper.ship().models == {ADDRESS: 2}
        server.stop(signal.SIGTERM)
        shutil.copy(database, tmp_path / "copy.db")
        server.start()
        write_run(workspace, "b").end()
        book = write_run(workspace, "c")
        assert shipper.ship().runs == 2
        server.stop(signal.SIGKILL)
        for file in tmp_path.glob("server.db*"):
            file.unlink()
        shutil.copy(tmp_path / "copy.db", database)
        server.start()
        book.end()
        shipped = shipper.ship()
        assert (shipped.runs, shipped.waiting, shipped.trouble) == (4, 0, "")
        assert shipped.models == {ADDRESS: 2}
        runs = runs_of(server.uri)
        assert {name: run.info.status for name, run in runs.items()} == dict.fromkeys("zabc", "FINISHED")
        assert all(len(steps_of(server.uri, runs[name], "val/rsum")) == 2 for name in "bc")


def _need(condition: bool) -> None:
    assert condition


def _artifacts(uri: str, run: Any, under: str) -> list[str]:
    from mlflow import MlflowClient

    return [file.path for file in MlflowClient(tracking_uri=uri).list_artifacts(run.info.run_id, under)]


@contextlib.contextmanager
def stumbling(server: str) -> Generator[tuple[str, list[str]]]:
    """A proxy before a server: of eleven requests one is answered 500 before it is passed on, and one after, by chance:
    a pass of eleven requests kept step with every eleventh, and never came to an end."""
    failed: list[str] = []
    draws, lock = random.Random(0), threading.Lock()

    class Proxy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with lock:
                turn = draws.randrange(11)
            status, data = 500, b"{}"
            if turn != 1:
                request = urllib.request.Request(f"{server}{self.path}", body or None, method=self.command)
                for name in ("Content-Type", "Accept"):
                    if name in self.headers:
                        request.add_header(name, self.headers[name])
                try:
                    with urllib.request.urlopen(request, timeout=30) as answer:
                        status, data = answer.status, answer.read()
                except urllib.error.HTTPError as error:
                    status, data = error.code, error.read()
            if turn == 6:
                status, data = 500, b"{}"
            if status == 500:
                failed.append(self.path.partition("?")[0])
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_POST(self) -> None:
            self.do_GET()

        def do_PUT(self) -> None:
            self.do_GET()

        def do_PATCH(self) -> None:
            self.do_GET()

        def do_DELETE(self) -> None:
            self.do_GET()

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing on the console."""

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{proxy.server_address[1]}", failed
    finally:
        proxy.shutdown()
        proxy.server_close()
        thread.join()


def test_answers_of_500_before_and_after_the_deed_lose_and_double_nothing(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    names = "abcdefgh"
    for name in names:
        write_run(workspace, name, parent="sweep", epochs=5).end()
    server = mlflow_server(f"sqlite:///{tmp_path}/server.db", str(tmp_path / "art"), tmp_path)
    with serving(server), stumbling(server.uri) as (uri, failed):
        shipper = Shipper(str(workspace), uri)
        for _ in range(100):
            if shipper.ship().waiting == 0:
                break
        else:
            pytest.fail("it never came to an end")
        runs = runs_of(server.uri)
        assert runs.keys() == {*names, "sweep"}
        for name in names:
            assert runs[name].info.status == "FINISHED"
            assert runs[name].data.tags["mlflow.parentRunId"] == runs["sweep"].info.run_id
            assert [step for step, _ in steps_of(server.uri, runs[name], "val/rsum")] == [1, 2, 3, 4, 5]
        assert len(failed) >= 6
        assert len(set(failed)) >= 3


@contextlib.contextmanager
def postgres(folder: Path) -> Generator[str]:
    """A PostgreSQL of this test's own, in a folder, on loopback; its address for SQLAlchemy."""
    programs = sorted(_POSTGRES.glob("*/bin"))
    if not programs:
        pytest.skip("PostgreSQL is not installed (apt-get install postgresql)")
    pytest.importorskip("psycopg", reason="the PostgreSQL driver psycopg is not installed")
    place, port = folder / "postgres", free_port()
    as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
    place.mkdir()
    if as_user:
        shutil.chown(place, "postgres", "postgres")
        for above in (folder, *folder.parents):
            if above != Path("/tmp") and above.is_relative_to("/tmp"):
                above.chmod(above.stat().st_mode | 0o011)
    run = {"check": True, "capture_output": True, "cwd": "/"}
    subprocess.run([*as_user, programs[-1] / "initdb", "-D", place / "data", "-U", "vse", "-A", "trust"], **run)
    options = ["-c", "listen_addresses=127.0.0.1", "-c", f"port={port}", "-c", f"unix_socket_directories={place}"]
    command = [*map(str, (*as_user, programs[-1] / "postgres", "-D", place / "data")), *options]
    with (folder / "postgres.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/")
        try:
            wait_for(lambda: socket.create_connection(("127.0.0.1", port), timeout=5).close())
            yield f"postgresql://vse@127.0.0.1:{port}/postgres"
        finally:
            process.send_signal(signal.SIGINT)  # disconnects clients and shuts down
            process.wait(timeout=60)


def test_postgres_behind_the_server_and_artifacts_on_s3(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a cluster has it; a run with its files and a registered model that loads through the server."""
    import boto3
    from moto.server import ThreadedMotoServer

    from tests.unit.inference.test_embedder import train
    from vse.inference.served_model import offer_model
    from vse.workspace.layout import Workspace

    folder = tmp_path_factory.mktemp("cluster")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    bucket = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    bucket.start()
    try:
        endpoint = "http://{}:{}".format(*bucket.get_host_and_port())
        client = boto3.client("s3", endpoint_url=endpoint)
        client.create_bucket(Bucket="tracking")
        with postgres(folder) as store:
            server = mlflow_server(store, "s3://tracking/artifacts", folder, MLFLOW_S3_ENDPOINT_URL=endpoint)
            with serving(server):
                place = Workspace.open(str(folder / "workspace"))
                result = train(place, "vsepp_tiny")
                offer_model(place, result.run)
                shipped = Shipper(place.root.uri, server.uri).ship()
                assert (shipped.trouble, shipped.models) == ("", {"models:/vsepp-scenes@selected": 1})
                (run,) = runs_of(server.uri).values()
                assert run.info.status == "FINISHED"
                assert run.data.metrics["best/val/rsum"] == pytest.approx(result.metrics["val/rsum"])
                assert "config.json" in _artifacts(server.uri, run, "")
                kept = client.list_objects_v2(Bucket="tracking")["Contents"]
                assert any(each["Key"].endswith("model.safetensors") for each in kept)
                monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
                assert _loaded_vector(folder) == 32
        client.close()
    finally:
        bucket.stop()


def _loaded_vector(folder: Path) -> int:
    code = "import mlflow.pyfunc as p, pandas as d; m = p.load_model('models:/vsepp-scenes@selected')\n"
    code += "print(len(m.predict(d.DataFrame({'sentence': ['a dog']}))['embedding'][0]))"
    command = [sys.executable, "-W", "ignore", "-c", code]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=250)
    assert result.returncode == 0, result.stderr
    return int(result.stdout.splitlines()[-1])
