"""MLflow's store in a SQLite file: checks, repair, and a new store if there is none.

The journals have all its content, so a damaged file is renamed and a new one is filled. Checks read the file itself,
without importing mlflow.
"""

import os
import sqlite3
import time
import uuid
from contextlib import closing
from pathlib import Path

from vse.tracking.mlflow_internals import (
    COUNT_ACTIVE_RUN,
    COUNT_EXPERIMENTS,
    COUNT_RUN,
    PATH_COLUMNS,
    close_engines,
    is_locked,
    is_other_schema,
)
from vse.workspace.redaction import redact_text

_PATIENCE = 10.0  # seconds to wait for a lock of another process


def file_of(uri: str) -> Path:
    """The file of a sqlite:/// address."""
    return Path(uri.removeprefix("sqlite:///").partition("?")[0])


def damage(uri: str) -> str:
    """The first damaged page of a store's file; empty if there is none, or no file.

    A store of 10,000 runs with 480 points each (1.6 GB) takes 3 s. Raises sqlite3.OperationalError if the file cannot
    be read now, for instance because another process locks it.
    """
    if not file_of(uri).is_file():
        return ""
    try:
        with closing(sqlite3.connect(file_of(uri), timeout=_PATIENCE)) as connection:
            (answer,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        answer = str(error)
    return "" if answer == "ok" else " ".join(answer.split())


def put_aside_damaged(uri: str, *, ours: bool) -> str:
    """Rename a damaged store; returns a line about it, empty if there is no damage.

    Args:
        uri: of the store.
        ours: whether the store belongs to the workspace, whose journals have all its content.

    Raises:
        OSError: if a store that is not ours is damaged.
    """
    file, wrong = file_of(uri), damage(uri)
    if not wrong and ours and file.exists() and not is_whole(uri):
        wrong = "tables of MLflow are missing"
    if not wrong:
        return ""
    if not ours:
        raise OSError(f"its file is damaged: {wrong}; move it away, and the next job fills a new one")
    kept = Path(put_aside(uri)).name
    line = f"{file} was damaged ({wrong}); kept as {kept}, and filled anew from the journals"
    return f"{line}; a running `make ui` needs a restart"


def why_unusable(error: Exception, uri: str) -> str:
    """One line for errors of MLflow that explain themselves badly; empty for all others."""
    if is_locked(error):
        return "another process has locked it"
    if is_other_schema(error):
        return (
            "another version of MLflow wrote it; use that one, or make a copy and run `mlflow db upgrade "
            f"{redact_text(uri)}`, or move it away to have it filled anew from the journals"
        )
    return ""


def put_aside(uri: str) -> str:
    """Rename a store's file and its logs and close this process's connections; returns the file's new name, or ""."""
    database, aside = file_of(uri), ""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for name in ("-journal", "-wal", "-shm", ""):
        if Path(f"{database}{name}").exists():
            aside = f"{database}.damaged-{stamp}{name}"
            os.replace(f"{database}{name}", aside)
    close_engines(uri)
    return aside


def is_whole(uri: str) -> bool:
    """Whether a store exists with all its tables."""
    return _counts(file_of(uri), COUNT_EXPERIMENTS)


def file_knows(uri: str, run_id: str) -> bool:
    """`Store.knows` of a SQLite file."""
    return _counts(file_of(uri), COUNT_RUN, run_id)


def file_is_active(uri: str, run_id: str) -> bool:
    """`Store.is_active` of a SQLite file."""
    return _counts(file_of(uri), COUNT_ACTIVE_RUN, run_id)


def _counts(database: Path, query: str, *values: str) -> bool:
    """Whether a database has such rows; one that is busy or read-only counts as having them."""
    if not database.is_file():
        return False
    try:
        with closing(sqlite3.connect(database, timeout=_PATIENCE)) as connection:
            return connection.execute(query, values).fetchone()[0] > 0
    except sqlite3.OperationalError as error:
        return "no such table" not in str(error)
    except sqlite3.DatabaseError:
        return False


def make_whole(uri: str) -> None:
    """Create the embedded store, unless it is complete, under another name, then rename it.

    MLflow creates its tables in some thirty steps and cannot continue after a kill or a full disk between them.
    """
    if is_whole(uri):
        return
    database = file_of(uri)
    database.parent.mkdir(parents=True, exist_ok=True)
    for unfinished in database.parent.glob(f"{database.name}.making-*"):
        unfinished.unlink(missing_ok=True)
    put_aside(uri)
    from mlflow import MlflowClient

    making = database.with_name(f"{database.name}.making-{uuid.uuid4().hex[:8]}")  # MLflow remembers names
    address = f"sqlite:///{making}"
    MlflowClient(tracking_uri=address).search_experiments(max_results=1)
    close_engines(address, forget=True)
    with making.open("rb") as stream:
        os.fsync(stream.fileno())
    os.replace(making, database)


def relocate(uri: str, artifacts: Path) -> None:
    """Correct the absolute paths of artifacts in the embedded store of a workspace that was moved.

    The old root is the part of the experiments' folders before `mlflow/artifacts/<experiment>`.
    """
    with closing(sqlite3.connect(file_of(uri), timeout=_PATIENCE)) as connection, connection:
        try:
            rows = connection.execute("SELECT artifact_location FROM experiments").fetchall()
        except sqlite3.OperationalError as error:
            if is_locked(error):
                raise
            return  # made but not filled yet
        roots = {
            str(Path(place).parent) for (place,) in rows if Path(place).parent.parts[-2:] == ("mlflow", "artifacts")
        }
        for root in roots - {str(artifacts)}:
            for table, column in PATH_COLUMNS:
                connection.execute(
                    f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE substr({column}, 1, ?) = ?",
                    (str(artifacts), len(root) + 1, len(root) + 1, root + "/"),
                )
