"""A run that is removed while its workspace is read."""

import shutil
from pathlib import Path

import pytest

from vse.status import overview
from vse.storage.folder import Folder
from vse.storage.object_store import Info
from vse.workspace.journal import Journal, JournalState
from vse.workspace.layout import Workspace


def test_a_run_that_is_removed_after_it_was_listed_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for name in ("first", "second", "third"):
        Journal(tmp_path / "runs" / name / "journal.jsonl").start(name, name=name)
    content, cache = overview._content, overview.JournalCache()

    def read(folder: Folder, info: Info) -> JournalState:
        shutil.rmtree(tmp_path / "runs" / "second", ignore_errors=True)
        return content(folder, info)

    monkeypatch.setattr(overview, "_content", read)
    status = overview.read_status(Workspace.open(str(tmp_path)), cache=cache)
    assert {row.name for row in status.rows} == {"first", "third"}
    assert set(cache) == {"runs/first", "runs/third"}
