"""What is around the trials of a sweep, where the workspace is an address (a server on this machine plays S3)."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import s3
from vse import journal
from vse.command import Request
from vse.presets import preset
from vse.storage import Folder
from vse.sweeps import frame
from vse.sweeps.frame import Found, Frame, Report, run_framed

CONFIG = preset("vsepp_tiny")


@dataclass(frozen=True)
class Options:
    """Of a sweep that starts no Ray."""

    ray: str = ""


class Plan:
    """A sweep of no trials."""

    name, named, seeds, config = "square", False, (0,), CONFIG

    def definition(self) -> dict[str, Any]:
        return {"kind": "square"}


class Silent:
    """A shipper that has no MLflow."""

    uri = "http://127.0.0.1:9"

    def __init__(self, *_: Any) -> None:
        pass

    def every(self, seconds: float) -> contextlib.AbstractContextManager["Silent"]:
        return contextlib.nullcontext(self)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    monkeypatch.setenv("VSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(frame, "Shipper", Silent)
    monkeypatch.setattr(frame, "preflight", lambda *_, **__: None)
    monkeypatch.setattr(frame, "set_up_logging", lambda: None)
    with s3.server() as found:
        yield found


def sweep(workspace: str) -> str:
    def work(frame: Frame) -> Found:
        frame.tell_parent("square", workspace.partition("?")[0].rpartition("/")[2])
        frame.folder.write_text("page.html", "4")
        frame.journal().end()
        return Found(digest="12345678", report=lambda: Report(files=["page.html"], headline={}, details={}))

    request = Request(
        job="sweep_square",
        workspace=workspace,
        preset=None,
        config=CONFIG,
        options=Options(),
        changed=frozenset(),
        tracking=None,
    )
    return run_framed(request, Plan(), work)


def test_a_finished_sweep_on_s3_can_be_run_again(place: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    workspace = s3.address(place, "again")
    first = sweep(workspace)
    folder, file = Folder.holding(first)
    assert f"{folder.name} has been run before" not in caplog.text
    written = folder.read_bytes(file)
    assert sweep(workspace) == first
    assert f"{folder.name} has been run before" in caplog.text
    assert folder.read_bytes(file) == written


def test_its_summary_names_what_can_be_opened(place: str) -> None:
    folder, file = Folder.holding(sweep(s3.address(place, "names")))
    summary = folder.read_json(file)
    page, name = Folder.holding(summary["outputs"]["page_html"])
    assert page.read_text(name) == "4"
    assert summary["fingerprints"]["sweep"] == folder.name.removeprefix("square-")


def test_a_sweep_of_two_workspaces_is_told_in_both(place: str) -> None:
    for prefix in ("one", "two"):
        sweep(s3.address(place, prefix))
        (folder,) = Folder.open(s3.address(place, prefix)).child("sweeps").folders_with(journal.FILE_NAME)
        story = journal.parse(folder.read_bytes(journal.FILE_NAME))
        assert (story.status, story.tags["kind"], len(story.notes)) == ("finished", "square", 0)
        assert story.params["rule"] == prefix
