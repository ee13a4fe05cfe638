"""Shipping journals to a real embedded MLflow, and to servers that fail in every way."""

import http.server
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from filelock import lock_descriptor, unlock_descriptor

from tests.levels import slow_but
from tests.waiting import wait_for
from vse.errors import InputError
from vse.tracking import shipping
from vse.tracking.shipping import Shipper, ship_all, tracking_uri
from vse.workspace import journal
from vse.workspace.journal import Journal

pytestmark = pytest.mark.seconds


def write_run(workspace: Path, run: str, parent: str = "", epochs: int = 2, folder: str = "runs") -> Journal:
    book = Journal(workspace / folder / run / journal.FILE_NAME)
    book.start(run, name=f"run {run}", experiment="alpha", parent=parent, tags={"host": "vm-0"})
    book.params({"optim.lr": 1e-3, "long": "x" * 7000, "α": 0.75})
    for epoch in range(1, epochs + 1):
        book.metrics({"train/loss": 1.0 / epoch, "val/rsum": 100.0 + epoch}, step=epoch)
    return book


def client(workspace: Path) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=shipping.embedded_uri(str(workspace)))


def runs_of(workspace: Path) -> dict[str, Any]:
    found = client(workspace)
    places = [e.experiment_id for e in found.search_experiments()]
    runs = found.search_runs(places, max_results=1000)
    assert len({r.data.tags["vse.run_id"] for r in runs}) == len(runs)
    return {r.data.tags["vse.run_id"]: r for r in runs}


def history(workspace: Path, run: str, key: str) -> list[tuple[int, float]]:
    found = client(workspace)
    return [(m.step, m.value) for m in found.get_metric_history(runs_of(workspace)[run].info.run_id, key)]


def test_a_journal_becomes_a_run(workspace: Path) -> None:
    book = write_run(workspace, "child-1", parent="sweep-1")
    book.tags({"kind": "training", "fingerprint.records": "01234567", "version.torch": "2.14.1"})
    book.params({"data": "scenes"})
    table = book.path.parent / "evaluation" / "table.json"
    table.parent.mkdir()
    table.write_text("{}")
    book.artifact(table, under="tables")
    book.artifact(book.path.parent / "never-made.png")
    book.metrics({"train/loss": float("nan")}, step=3)
    book.end()
    parent = Journal(workspace / "sweeps" / "sweep-1" / journal.FILE_NAME)
    parent.start("sweep-1", name="α sweep", experiment="alpha")
    result = ship_all(str(workspace))
    assert (result.runs, result.waiting, result.trouble) == (2, 0, "")
    runs = runs_of(workspace)
    child, sweep = runs["child-1"], runs["sweep-1"]
    assert child.info.run_name == "run child-1"
    assert (child.info.status, sweep.info.status) == ("FINISHED", "RUNNING")
    assert child.data.params == {"optim.lr": "0.001", "long": "x" * 6000, "_": "0.75", "data": "scenes"}
    assert child.data.tags["mlflow.parentRunId"] == sweep.info.run_id
    assert child.data.tags["host"] == "vm-0"
    assert "version.torch" not in child.data.tags
    (dataset,) = child.inputs.dataset_inputs
    assert (dataset.dataset.name, dataset.dataset.digest) == ("scenes", "01234567")
    assert child.data.tags["mlflow.source.name"] == child.data.tags["kind"] == "training"
    assert "A sweep is one row" in client(workspace).get_experiment_by_name("alpha").tags["mlflow.note.content"]
    assert "train/loss at step 3 is nan" in child.data.tags["mlflow.note.content"]
    assert history(workspace, "child-1", "train/loss") == [(1, 1.0), (2, 0.5)]
    assert [a.path for a in client(workspace).list_artifacts(child.info.run_id, "tables")] == ["tables/table.json"]
    assert child.info.artifact_uri.startswith(str(workspace / "mlflow" / "artifacts"))


def test_only_what_is_new_is_sent(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vse.tracking import store

    book = write_run(workspace, "a")
    picture = book.path.parent / "alpha.png"
    picture.write_bytes(b"one")
    book.artifact(picture)
    shipper = Shipper(str(workspace))
    assert [(key, waits) for key, *_, waits in shipper.survey()] == [("runs/a", True)]
    assert shipper.ship().runs == 1
    assert [(key, waits) for key, *_, waits in shipper.survey()] == [("runs/a", False)]
    sent: list[dict[str, Any]] = []
    files: list[str] = []
    send, send_file = store.Store.send, store.Store.send_file

    def spy(self: Any, run_id: str, **what: Any) -> None:
        sent.append(what)
        send(self, run_id, **what)

    def spy_file(self: Any, run_id: str, path: Path, under: str) -> None:
        files.append(path.name)
        send_file(self, run_id, path, under)

    monkeypatch.setattr(store.Store, "send", spy)
    monkeypatch.setattr(store.Store, "send_file", spy_file)
    assert shipper.ship().runs == 0
    assert ship_all(str(workspace)).runs == 0
    assert sent == []
    resumed = Journal(book.path)  # the last epoch again, then a new one
    resumed.start("a", name="run a", experiment="alpha", tags={"host": "vm-0"})
    resumed.metrics({"train/loss": 0.5}, step=2)
    resumed.metrics({"train/loss": 0.25}, step=3)
    resumed.artifact(picture)
    assert ship_all(str(workspace)).runs == 1
    assert list(sent[0]["metrics"]) == [("train/loss", 3)]
    assert sent[0]["params"] == sent[0]["tags"] == {}
    assert files == []
    picture.write_bytes(b"another")
    resumed.artifact(picture)
    ship_all(str(workspace))
    assert files == ["alpha.png"]
    assert history(workspace, "a", "train/loss") == [(1, 1.0), (2, 0.5), (3, 0.25)]


def test_lost_state_makes_no_second_run_and_no_second_point(workspace: Path) -> None:
    book = write_run(workspace, "a", parent="p")
    ship_all(str(workspace))
    first = runs_of(workspace)["a"].info.run_id
    (workspace / "mlflow" / "shipped-embedded.json").write_text("{torn")
    book.metrics({"train/loss": 0.25}, step=3)
    book.end("failed")
    assert ship_all(str(workspace)).trouble == ""
    runs = runs_of(workspace)
    assert set(runs) == {"a", "p"}
    assert runs["a"].info.run_id == first
    assert runs["a"].info.status == "FAILED"
    assert history(workspace, "a", "train/loss") == [(1, 1.0), (2, 0.5), (3, 0.25)]


def test_a_lost_store_is_filled_again(workspace: Path, fresh_store: Path) -> None:
    book = write_run(workspace, "a")
    ship_all(str(workspace))
    shutil.copy(fresh_store, workspace / "mlflow" / "mlflow.db")
    book.metrics({"train/loss": 0.25}, step=3)
    assert ship_all(str(workspace)).trouble == ""
    assert history(workspace, "a", "train/loss") == [(1, 1.0), (2, 0.5), (3, 0.25)]


def test_a_deleted_run_stays_deleted(workspace: Path, caplog: pytest.LogCaptureFixture) -> None:
    book = write_run(workspace, "a")
    write_run(workspace, "b")
    ship_all(str(workspace))
    client(workspace).delete_run(runs_of(workspace)["a"].info.run_id)
    book.metrics({"train/loss": 0.25}, step=3)
    with caplog.at_level(logging.WARNING):
        shipper = Shipper(str(workspace))
        assert shipper.ship().trouble == ""
        book.metrics({"train/loss": 0.2}, step=4)
        assert shipper.ship().runs == 0
    assert len([r for r in caplog.records if "refuses" in r.message]) == 1
    assert set(runs_of(workspace)) == {"b"}


def test_a_moved_workspace_keeps_its_artifacts(workspace: Path) -> None:
    book = write_run(workspace, "a")
    (book.path.parent / "table.json").write_text("{}")
    book.artifact(book.path.parent / "table.json")
    ship_all(str(workspace))
    moved = workspace.with_name("moved")
    workspace.rename(moved)
    write_run(moved, "b")
    assert ship_all(str(moved)).runs == 1
    runs = runs_of(moved)
    assert runs["a"].info.artifact_uri.startswith(str(moved / "mlflow" / "artifacts"))
    assert [a.path for a in client(moved).list_artifacts(runs["a"].info.run_id)] == ["table.json"]


def test_a_batch_beyond_every_limit(workspace: Path) -> None:
    book = Journal(workspace / "runs" / "big" / journal.FILE_NAME)
    book.start("big", tags={f"t{k}": k for k in range(130)})
    book.params({f"p{k}": k for k in range(230)})
    for step in range(30):
        book.metrics({f"m{k}": float(k) for k in range(70)}, step=step)
    assert ship_all(str(workspace)).trouble == ""
    run = runs_of(workspace)["big"]
    assert len(run.data.params) == 230
    rest = json.loads(Path(client(workspace).download_artifacts(run.info.run_id, "environment.json")).read_text())
    assert rest == {f"t{k}": str(k) for k in range(130)}
    assert all(len(history(workspace, "big", f"m{k}")) == 30 for k in (0, 69))


@pytest.mark.slow
def test_a_sweep_of_64_runs_ships_in_seconds(workspace: Path) -> None:
    write_run(workspace, "sweep", folder="sweeps")
    for k in range(63):
        write_run(workspace, f"trial-{k}", parent="sweep", folder="sweeps/sweep").end()
    began = time.process_time()
    result = ship_all(str(workspace))
    assert (result.runs, result.trouble) == (64, "")
    assert time.process_time() - began < 20  # of this process, since others may crowd the machine
    runs = runs_of(workspace)
    assert len(runs) == 64
    parent = runs.pop("sweep").info.run_id
    assert {r.data.tags["mlflow.parentRunId"] for r in runs.values()} == {parent}
    began = time.process_time()
    assert ship_all(str(workspace)).runs == 0
    assert time.process_time() - began < 1


def test_while_another_job_ships_this_one_spools(workspace: Path, shown: list[float]) -> None:
    write_run(workspace, "a")
    with (workspace / "mlflow" / "shipper.lock").open("a") as other:
        assert lock_descriptor(other.fileno())
        result = ship_all(str(workspace))
        assert (result.runs, "another job" in result.trouble) == (0, True)
        assert shown == []  # how many wait is that job's to say
        threading.Timer(0.3, lambda: unlock_descriptor(other.fileno())).start()
        assert ship_all(str(workspace), wait=20).runs == 1


def test_the_background_ships_while_the_job_works_and_once_at_its_end(workspace: Path) -> None:
    book = write_run(workspace, "a")
    with pytest.raises(RuntimeError, match="the job fails"), Shipper(str(workspace)).every(0.05):  # noqa: PT012
        wait_for(workspace / "mlflow" / "shipped-embedded.json")
        book.metrics({"train/loss": 0.25}, step=3)
        book.end("failed")
        raise RuntimeError("the job fails")
    assert runs_of(workspace)["a"].info.status == "FAILED"
    assert len(history(workspace, "a", "train/loss")) == 3


@pytest.mark.slow
def test_where_a_look_takes_long_there_are_few(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = []

    def slow(self: Shipper) -> Iterator[Any]:
        looks.append(time.monotonic())
        time.sleep(0.2)
        yield from ()

    monkeypatch.setattr(Shipper, "_journals", slow)
    with Shipper(str(workspace)).every(0.01):
        time.sleep(2.0)
        during = len(looks)
    assert during <= 2
    assert len(looks) == during + 1  # and one at the end


class Answer500(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.send_response(500)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing on the console."""


@pytest.fixture
def failing() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer500)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def hanging() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # accepts, never answers
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def absent() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.process
@pytest.mark.parametrize("kind", slow_but(["failing", "hanging", "absent"], "failing"))
def test_a_server_in_trouble_costs_one_warning(
    kind: str,
    workspace: Path,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    shown: list[float],
) -> None:
    uri = request.getfixturevalue(kind)
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    write_run(workspace, "a")
    write_run(workspace, "b")
    with caplog.at_level(logging.WARNING, logger="vse"):
        shipper = Shipper(str(workspace), uri)
        first = shipper.ship()
        assert (first.runs, first.waiting) == (0, 2)
        assert first.seconds < 40  # MLflow by itself would wait for many minutes
        assert first.trouble
        shipper.ship()
    assert len([r for r in caplog.records if r.name.startswith("vse")]) == 1
    assert shown == [2, 2]
    assert ship_all(str(workspace)).runs == 2  # nothing was lost: another target gets everything
    assert shown == [2, 2, 0]


@pytest.mark.slow
def test_a_real_server_gets_the_same(workspace: Path, tmp_path: Path) -> None:
    """The embedded store behind MLflow's own server, as on a cluster."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += [
        "--backend-store-uri",
        f"sqlite:///{tmp_path}/server.db",
        "--artifacts-destination",
        str(tmp_path / "art"),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as server:
        try:
            _wait_for(lambda: socket.create_connection(("127.0.0.1", port), timeout=1).close())
            book = write_run(workspace, "a", parent="p")
            (book.path.parent / "table.json").write_text(json.dumps({"r1": 1}))
            book.artifact(book.path.parent / "table.json", under="tables")
            uri = f"http://127.0.0.1:{port}"
            _wait_for(lambda: _need(Shipper(str(workspace), uri).ship().runs == 1))
            from mlflow import MlflowClient

            found = MlflowClient(tracking_uri=uri)
            runs = found.search_runs([e.experiment_id for e in found.search_experiments()])
            assert {r.data.tags["vse.run_id"] for r in runs} == {"a", "p"}
            run = next(r for r in runs if r.data.tags["vse.run_id"] == "a")
            assert [a.path for a in found.list_artifacts(run.info.run_id, "tables")] == ["tables/table.json"]
            assert len(found.get_metric_history(run.info.run_id, "train/loss")) == 2
        finally:
            os.killpg(server.pid, signal.SIGTERM)


def _wait_for(attempt: Callable[[], None], seconds: float = 180) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            return attempt()
        except (OSError, AssertionError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.3)


def _need(condition: bool) -> None:
    assert condition


def test_where_runs_go(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert tracking_uri(str(workspace)) == f"sqlite:///{workspace}/mlflow/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://10.0.0.4:5000/")
    assert tracking_uri(str(workspace)) == "http://10.0.0.4:5000"
    assert tracking_uri(str(workspace), "https://mlflow") == "https://mlflow"
    for wrong in ("./mlruns", "file:///mlruns", "sqlite:///relative.db"):
        with pytest.raises(InputError, match="expected"):
            tracking_uri(str(workspace), wrong)


@pytest.mark.process
def test_nothing_to_do_imports_nothing(workspace: Path) -> None:
    does = "from vse.tracking.shipping import ship_all; ship_all(sys.argv[1]); sys.exit('mlflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", f"import sys; {does}", str(workspace)], check=False).returncode == 0


def test_a_run_that_is_told_at_its_end_lasts_as_long_as_it_took(workspace: Path) -> None:
    """As trials of sweeps are; told again after a kill, it still began when it did."""
    book = Journal(workspace / "runs" / "a" / "journal.jsonl")
    book.start("a", ago=12.5)
    book.end()
    book.start("a")
    book.end()
    ship_all(str(workspace))
    run = runs_of(workspace)["a"]
    assert run.info.end_time - run.info.start_time == pytest.approx(12_500, abs=2000)
