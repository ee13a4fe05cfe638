"""Which files of a run the shipper sends: those of the workspace, whatever a journal names."""

import logging
from pathlib import Path
from typing import Any

import pytest

from vse.tracking.shipping import Shipper
from vse.workspace.journal import FILE_NAME, Journal


class Store:
    """Remembers what it is sent."""

    def __init__(self) -> None:
        self.files: list[str] = []

    def find_or_create(self, experiment: str, run: str, **more: Any) -> tuple[str, bool]:
        return run, False

    def experiment_id(self, name: str) -> str:
        return name

    def stage(self, run_id: str) -> str:
        return "active"

    def send(self, run_id: str, **what: Any) -> None:
        """Numbers are not looked at here."""

    def send_file(self, run_id: str, path: Path, under: str) -> None:
        self.files.append(path.name)

    def set_status(self, run_id: str, status: str, ended: int) -> None:
        """Nor is the status."""


def test_a_journal_cannot_send_other_files_of_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("VSE_CACHE", str(tmp_path / "cache"))
    run = tmp_path / "workspace" / "runs" / "a"
    secret = tmp_path / "secret"
    for folder in (run / "good", run / "bad", tmp_path / "cache"):
        folder.mkdir(parents=True)
    for file in (secret, run / "own.json", run / "good" / "x", run.parent / "neighbour.json", tmp_path / "cache" / "c"):
        file.touch()
    (run / "link").symlink_to(secret)
    (run / "inner").symlink_to("own.json")
    (run / "bad" / "link").symlink_to(secret)
    book = Journal(run / FILE_NAME)
    book.start("a")
    wanted = [run / "own.json", run / "inner", run / "good", run.parent / "neighbour.json", tmp_path / "cache" / "c"]
    for file in (*wanted, secret, run / "link", run / "bad", run / ".." / ".." / ".." / "secret"):
        book.artifact(file)
    shipper, store = Shipper(str(tmp_path / "workspace")), Store()
    shipper._store = store
    with caplog.at_level(logging.WARNING):
        assert shipper.ship().runs == 1
    assert sorted(store.files) == sorted(file.name for file in wanted)
    assert len(caplog.records) == 1
    assert "not of this workspace; it is not sent" in caplog.text


def test_runs_behind_a_link_are_of_the_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    (tmp_path / "large disk" / "a").mkdir(parents=True)
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "runs").symlink_to(tmp_path / "large disk")
    book = Journal(tmp_path / "workspace" / "runs" / "a" / FILE_NAME)
    (book.path.parent / "config.json").touch()
    book.start("a")
    book.artifact(book.path.parent / "config.json")
    shipper, store = Shipper(str(tmp_path / "workspace")), Store()
    shipper._store = store
    assert shipper.ship().runs == 1
    assert store.files == ["config.json"]


class Sickly(Store):
    """Takes no file of the run a; `there` says whether it is there at all."""

    def __init__(self) -> None:
        super().__init__()
        self.there = True
        self.asked: list[str] = []

    def find_or_create(self, experiment: str, run: str, **more: Any) -> tuple[str, bool]:
        self.asked.append(run)
        return run, False

    def send_file(self, run_id: str, path: Path, under: str) -> None:
        if run_id == "a":
            raise ConnectionError("timed out\nand more")
        super().send_file(run_id, path, under)

    def prepare_queries(self) -> None:
        """Nothing here is queried."""

    def answers(self) -> bool:
        return self.there


def test_a_run_that_cannot_be_sent_holds_back_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for run in ("a", "b"):
        book = Journal(tmp_path / "runs" / run / FILE_NAME)
        book.start(run, name=f"run {run}")
        book.path.with_name(f"{run}.json").touch()
        book.artifact(book.path.with_name(f"{run}.json"))
    shipper = Shipper(str(tmp_path), "http://127.0.0.1:9")
    store = shipper._store = Sickly()
    with caplog.at_level(logging.WARNING, logger="vse"):
        for sent in (1, 0):
            result = shipper.ship()
            assert (result.runs, result.waiting, result.trouble) == (sent, 1, "run a: timed out")
    assert store.files == ["b.json"]
    assert [record.message for record in caplog.records] == [
        "tracking: run a: timed out; this run stays in its journal and is retried"
    ]


def test_the_parent_of_many_runs_is_looked_up_once(tmp_path: Path) -> None:
    for run in ("a", "b", "c"):
        Journal(tmp_path / "runs" / run / FILE_NAME).start(run, parent="sweep")
    shipper = Shipper(str(tmp_path), "http://127.0.0.1:9")
    store = shipper._store = Sickly()
    assert shipper.ship().runs == 3
    assert sorted(store.asked) == ["a", "b", "c", "sweep"]


def test_a_server_that_went_away_is_not_asked_for_every_run(tmp_path: Path) -> None:
    for run in ("a", "b"):
        book = Journal(tmp_path / "runs" / run / FILE_NAME)
        book.start(run)
        book.path.with_name("x").touch()
        book.artifact(book.path.with_name("x"))
    shipper = Shipper(str(tmp_path), "http://127.0.0.1:9")
    store = shipper._store = Sickly()
    store.there = False
    assert shipper.ship().waiting == 2
    assert store.asked == ["a"]


def test_files_have_longer_than_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from mlflow.environment_variables import MLFLOW_HTTP_REQUEST_TIMEOUT

    from vse.tracking.store import Store

    waits: list[int] = []

    class Client:
        def log_artifact(self, *_: Any) -> None:
            waits.append(MLFLOW_HTTP_REQUEST_TIMEOUT.get())

    for asked in (None, "7"):
        monkeypatch.delenv("MLFLOW_HTTP_REQUEST_TIMEOUT", raising=False)
        if asked is not None:
            monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", asked)
        store = Store("http://127.0.0.1:9")
        monkeypatch.setattr(store, "_client", Client())
        store.send_file("a", tmp_path / "x", "")
        waits.append(MLFLOW_HTTP_REQUEST_TIMEOUT.get())
    assert waits == [60, 5, 7, 7]
