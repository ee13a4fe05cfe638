"""MLflow's SQLite file damaged, locked, or of another version. It is a view of the journals, and is filled again."""

import logging
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.levels import slow_but
from tests.unit.tracking.test_shipping import client, history, runs_of, write_run
from vse.tracking.mlflow_internals import close_engines
from vse.tracking.shipping import Shipper, embedded_uri, ship_all
from vse.tracking.store import Store

pytestmark = pytest.mark.seconds


def _zero_a_page(file: Path) -> None:
    """The first page of the table of metrics, as a disk loses it; its index and all other tables are intact."""
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'metrics'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    with file.open("r+b") as stream:
        stream.seek((page - 1) * size)
        stream.write(bytes(size))


def _half_made(file: Path) -> None:
    file.unlink()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE _alembic_tmp_metrics (x)")
        connection.execute("CREATE TABLE experiments (x)")


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "a page zeroed": _zero_a_page,
    "truncated": lambda file: os.truncate(file, file.stat().st_size // 2),
    "empty": lambda file: os.truncate(file, 0),
    "random bytes": lambda file: file.write_bytes(os.urandom(20_000)),
    "an HTML page": lambda file: file.write_text("<!DOCTYPE html><html><body>502 Bad Gateway</body></html>"),
    "half made": _half_made,
}


def _write(workspace: Path) -> None:
    write_run(workspace, "sweep-1", folder="sweeps").end()
    book = write_run(workspace, "a", parent="sweep-1")
    book.path.with_name("table.json").write_text("{}")
    book.artifact(book.path.with_name("table.json"))
    book.end()
    write_run(workspace, "b")


def _close(workspace: Path) -> Path:
    """The database as a process that has ended leaves it: in one file."""
    uri = embedded_uri(str(workspace))
    close_engines(uri)
    file = workspace / "mlflow" / "mlflow.db"
    assert not Path(f"{file}-wal").exists()
    return file


def _seen(workspace: Path) -> dict[str, Any]:
    """What MLflow shows, without the ids that it draws."""
    found = client(workspace)
    experiments = {each.name: each.artifact_location for each in found.search_experiments()}
    runs = runs_of(workspace)
    names = {run.info.run_id: name for name, run in runs.items()}
    seen: dict[str, Any] = {"experiments": experiments}
    for name, run in runs.items():
        assert run.info.artifact_uri.startswith(str(workspace / "mlflow" / "artifacts"))
        seen[name] = (
            {**run.data.params, **run.data.metrics},
            history(workspace, name, "val/rsum"),
            names.get(run.data.tags.get("mlflow.parentRunId", "")),
            [file.path for file in found.list_artifacts(run.info.run_id)],
            run.info.status,
        )
    return seen


def _warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize("kind", slow_but(DAMAGE, "a page zeroed", "an HTML page"))
def test_a_damaged_store_is_put_aside_and_filled_again(
    kind: str, workspace: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _write(workspace)
    ship_all(str(workspace))
    before = _seen(workspace)
    file = _close(workspace)
    DAMAGE[kind](file)
    damaged = file.read_bytes()
    shipped = ship_all(str(workspace))
    assert (shipped.runs, shipped.waiting, shipped.trouble) == (3, 0, "")
    assert _seen(workspace) == before
    (aside,) = (path for path in file.parent.glob("mlflow.db.damaged-*") if path.suffix[1:3] == "da")
    assert aside.read_bytes() == damaged
    (line,) = _warnings(caplog)
    assert f"{file} was damaged" in line
    assert f"kept as {aside.name}, and filled again from the journals" in line
    caplog.clear()
    assert ship_all(str(workspace)).runs == 0
    assert _warnings(caplog) == []


@pytest.mark.slow
def test_a_store_that_is_damaged_under_a_living_job_is_filled_again(
    workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(workspace)
    shipper, send = Shipper(str(workspace)), Store.send
    assert shipper.ship().runs == 3
    file, calls = _close(workspace), list[str]()

    def breaks(self: Store, *args: Any, **more: Any) -> None:
        calls.append("send")
        if len(calls) == 1:
            DAMAGE["random bytes"](file)
            raise RuntimeError("(sqlite3.DatabaseError) database disk image is malformed")
        send(self, *args, **more)

    monkeypatch.setattr(Store, "send", breaks)
    write_run(workspace, "c")
    shipped = shipper.ship()
    assert (shipped.runs, shipped.waiting, shipped.trouble) == (4, 0, "")
    assert runs_of(workspace).keys() == {"sweep-1", "a", "b", "c"}


def test_a_damaged_store_outside_the_workspace_is_the_users(
    workspace: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_run(workspace, "a")
    other = tmp_path / "own.db"
    other.write_bytes(b"not a database" * 100)
    shipped = ship_all(str(workspace), f"sqlite:///{other}")
    assert (shipped.runs, shipped.waiting) == (0, 1)
    assert "its file is damaged: file is not a database; move it away" in shipped.trouble
    assert other.read_bytes() == b"not a database" * 100
    assert len(_warnings(caplog)) == 1


@contextmanager
def _locked(file: Path, how: str) -> Generator[None]:
    """Another process holds the file."""
    code = (
        "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "c.execute('BEGIN ' + sys.argv[2]); print('locked', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(file), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield
        process.communicate()


@pytest.mark.slow  # MLflow waits for 20 s
@pytest.mark.parametrize("how", ["IMMEDIATE", "EXCLUSIVE"])
def test_a_locked_store_is_one_line_and_the_records_wait(
    how: str, workspace: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Immediate: others can read, as while MLflow's pages write a note."""
    _write(workspace)
    ship_all(str(workspace))
    file = _close(workspace)
    write_run(workspace, "c").end()
    write_run(workspace, "d").end()
    with _locked(file, how):
        shipped = ship_all(str(workspace))
    assert (shipped.runs, shipped.waiting) == (0, 2)
    assert shipped.seconds < 40
    assert _warnings(caplog) == [
        f"tracking: sqlite:///{file} cannot be used now (another process has locked it); runs stay in their journals"
    ]
    assert "Traceback" not in capfd.readouterr().err
    assert ship_all(str(workspace)).runs == 2
    assert runs_of(workspace)["d"].info.status == "FINISHED"


def test_a_store_of_another_version_of_mlflow_is_one_line(workspace: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = workspace / "mlflow" / "mlflow.db"
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0123456789ab'")
    write_run(workspace, "a")
    assert ship_all(str(workspace)).waiting == 1
    (line,) = _warnings(caplog)
    assert (
        f"another version of MLflow wrote it; use that one, or make a copy and run `mlflow db upgrade sqlite:///{file}`"
        in line
    )
    assert "\n" not in line


@pytest.mark.parametrize("lost", slow_but([20, 2000, None], 2000), ids=["torn", "many lines", "all"])
def test_mlflow_shows_a_run_whose_journal_lost_its_end_as_finished_and_each_point_once(
    lost: int | None, workspace: Path, stages: Callable[[Path], Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Cut after it was sent, and sent again to a store that was lost too."""
    from tests.unit.stages.test_train import config
    from vse.stages.train import run_training

    space = stages(tmp_path / "trained")
    result, root = run_training(config(), space), space.root.local()
    (root / "mlflow").symlink_to(workspace / "mlflow")
    ship_all(str(root))
    path = result.folder.local("journal.jsonl")
    os.truncate(path, path.stat().st_size - lost if lost else 0)
    caplog.clear()
    assert ship_all(str(root)).trouble == ""
    assert _warnings(caplog) == [f"{path}: the last records were lost; restored from the run's result"]
    assert ship_all(str(root)).runs == 0
    (run,) = runs_of(root).values()
    assert run.info.status == "FINISHED"
    found = client(root)
    for key in ("train/sent", "val/rsum"):
        points = found.get_metric_history(run.info.run_id, key)
        assert sorted(point.step for point in points) == [1, 2, 3]
