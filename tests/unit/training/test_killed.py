"""Runs that a sweep trained when it was interrupted: their processes are gone and have told nothing."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import s3
from vse.storage.folder import Folder
from vse.training import run_journal as killed
from vse.workspace import journal
from vse.workspace.layout import Workspace

RUNS = {"mine": "sweep-1", "other": "sweep-2", "alone": ""}  # name -> the sweep that trained it


@pytest.fixture(params=["local", "s3"])
def begun(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Workspace]:
    """A workspace of runs that have begun, and of one that ended well."""
    monkeypatch.setenv("VSE_CACHE", str(tmp_path / "cache"))
    if request.param == "local":
        yield _with_runs(Workspace.open(str(tmp_path / "workspace")))
        return
    with s3.server() as place:
        yield _with_runs(Workspace.open(s3.address(place)))


def _with_runs(workspace: Workspace) -> Workspace:
    for name, parent in RUNS.items():
        workspace.journal(workspace.run(name)).start(name, parent=parent)
    done = workspace.journal(workspace.run("done"))
    done.start("done", parent="sweep-1")
    done.end("finished")
    return workspace


def _states(workspace: Workspace) -> dict[str, str]:
    names = workspace.root.child("runs").names()
    return {name: journal.parse(workspace.run(name).read_bytes(journal.FILE_NAME)).status for name in names}


@pytest.mark.process
def test_those_of_the_sweep_end(begun: Workspace) -> None:
    before = _states(begun)
    killed.end_killed_below(begun, "sweep-1", time.time() + 2 * killed.CLOCKS)
    assert _states(begun) == before  # of an earlier call, which nobody reads on the way out
    killed.end_killed_below(begun, "sweep-1", time.time())
    assert _states(begun) == {"mine": "killed", "other": "running", "alone": "running", "done": "finished"}


@pytest.mark.process
def test_a_run_that_another_process_took_over_is_left_alone(begun: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    """On S3 the lock is the lease of the dead, for which nobody waits."""
    monkeypatch.setattr(killed, "SOON", 0.2)
    with begun.run("mine").locked():
        started = time.monotonic()
        killed.end_killed_below(begun, "sweep-1", time.time())
        assert time.monotonic() - started < 5
        assert _states(begun)["mine"] == ("running" if begun.root.is_local else "killed")


@pytest.mark.process
def test_trouble_on_the_way_out_is_no_other_error(begun: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(folder: Folder, name: str) -> bytes:
        raise OSError("no way to the store")

    monkeypatch.setattr(Folder, "read_bytes", fails)
    killed.end_killed_below(begun, "sweep-1", time.time())
