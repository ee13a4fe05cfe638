"""Which files of a run the shipper sends: those of the workspace, whatever a journal names."""

import logging
from pathlib import Path
from typing import Any

import pytest

from vse.journal import FILE_NAME, Journal
from vse.tracking import Shipper


class Store:
    """Remembers what it is sent."""

    def __init__(self) -> None:
        self.files: list[str] = []

    def find_or_create(self, experiment: str, run: str, **more: Any) -> tuple[str, bool]:
        return run, False

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
