"""MLflow's store in a SQLite file: checks, repair, and creation.

The journals contain all of it, so a damaged file is renamed and a new one is filled. Checks read the file without
importing mlflow.
"""

import contextlib
import os
import re
import sqlite3
import time
import uuid
from contextlib import closing
from pathlib import Path

from vse.tracking.mlflow_internals import (
    ACTIVE,
    FIRST_EXPERIMENT,
    INDEX_OF_TAG,
    PATH_COLUMNS,
    RUN_WITH_TAG,
    STAGE_OF_RUN,
    close_engines,
    is_locked,
    is_other_schema,
)
from vse.workspace.redaction import redact_text

_PATIENCE = 10.0  # seconds to wait for a lock of another process
_OF_ONE_MACHINE = frozenset({"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
_MOUNTS = Path("/proc/self/mountinfo")


def write_ahead(path: str | os.PathLike[str], mounts: Path = _MOUNTS) -> bool:
    """Whether SQLite may use a write-ahead log for a file: only one machine can open it.

    Processes share the index of the log in memory, so on a network file system two machines would damage the file
    (sqlite.org/wal.html). File systems that are not known to be of one machine count as shared; where the kernel lists
    no mounts (macOS), as of one machine.

    Args:
        path: the file.
        mounts: the kernel's list of mounts, as in proc_pid_mountinfo(5).
    """
    if not mounts.exists():
        return True
    place, depth, kind = Path(os.path.realpath(path)), -1, ""
    for line in mounts.read_text(errors="surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        point = Path(re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), before.split(" ")[4]))
        if place.is_relative_to(point) and len(point.parts) >= depth:  # of two mounts on one point, the later one
            depth, kind = len(point.parts), after.split(" ")[0]
    return kind in _OF_ONE_MACHINE


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
            (message,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError as error:
        message = str(error)
    return "" if message == "ok" else " ".join(message.split())


def put_aside_damaged(uri: str, *, ours: bool) -> str:
    """Rename a damaged store; returns a line for the log, empty if there is no damage.

    Args:
        uri: of the store.
        ours: whether the store belongs to the workspace, whose journals have all its content.

    Raises:
        OSError: if a store that is not ours is damaged.
    """
    file, reason = file_of(uri), damage(uri)
    if not reason and ours and file.exists() and not is_complete(uri):
        reason = "tables of MLflow are missing"
    if not reason:
        return ""
    if not ours:
        raise OSError(f"its file is damaged: {reason}; move it away, and the next job fills a new one")
    return (
        f"{file} was damaged ({reason}); kept as {Path(put_aside(uri)).name}, and filled again from the journals; "
        "a running `make ui` needs a restart"
    )


def why_unusable(error: Exception, uri: str) -> str:
    """One line for errors of MLflow with unclear messages; empty for all others."""
    if is_locked(error):
        return "another process has locked it"
    if is_other_schema(error):
        return (
            "another version of MLflow wrote it; use that one, or make a copy and run `mlflow db upgrade "
            f"{redact_text(uri)}`, or move it away to have it filled again from the journals"
        )
    return ""


def put_aside(uri: str) -> str:
    """Rename a store's file and its logs and close this process's connections; returns the file's new path, or ""."""
    database, aside = file_of(uri), ""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for name in ("-journal", "-wal", "-shm", ""):
        if Path(f"{database}{name}").exists():
            aside = f"{database}.damaged-{stamp}{name}"
            os.replace(f"{database}{name}", aside)
    close_engines(uri)
    return aside


def is_complete(uri: str) -> bool:
    """Whether a store exists with all its tables."""
    return bool(_stage(uri, FIRST_EXPERIMENT))


def stage_in_file(uri: str, run_id: str) -> str:
    """`Store.stage` of a SQLite file, which is read directly."""
    return _stage(uri, STAGE_OF_RUN, run_id)


def prepare_queries(uri: str, key: str) -> None:
    """Make `may_have_run` fast for the tag `key`, and count the tables' rows, by which SQLite plans MLflow's queries.

    With the counts of an empty store, MLflow's page took 90 s to sort 20,000 runs by a metric, and about
    1 s with new ones. Counting takes 30 ms. A store that is busy or read-only stays as it is.
    """
    with (
        contextlib.suppress(sqlite3.OperationalError),
        closing(sqlite3.connect(file_of(uri))) as connection,
        connection,
    ):
        connection.execute(INDEX_OF_TAG.format(key=key))
        connection.execute("PRAGMA analysis_limit = 1000")
        connection.execute("ANALYZE")


def may_have_run(uri: str, key: str, value: str) -> bool:
    """Whether a run has this tag; True if the file is busy.

    Args:
        uri: of the embedded store, sqlite:///...
        key: name of the tag, for which `prepare_queries` was called. It becomes part of the query as it is.
        value: of the tag.
    """
    return bool(_stage(uri, RUN_WITH_TAG.format(key=key), value))


def _stage(uri: str, query: str, *values: str) -> str:
    """The first text that a query finds, else ""; "active" if the file is busy or read-only."""
    if not file_of(uri).is_file():
        return ""
    try:
        with closing(sqlite3.connect(file_of(uri), timeout=_PATIENCE)) as connection:
            row = connection.execute(query, values).fetchone()
            return str(row[0]) if row else ""
    except sqlite3.OperationalError as error:
        return "" if "no such" in str(error) else ACTIVE  # no such table or column: created incompletely
    except sqlite3.DatabaseError:
        return ""


def make_complete(uri: str) -> None:
    """Create the embedded store, unless it is complete, under another name, then rename it.

    MLflow creates its tables in some thirty steps and cannot continue after a kill or a full disk between them.
    """
    if is_complete(uri):
        return
    database = file_of(uri)
    database.parent.mkdir(parents=True, exist_ok=True)
    for unfinished in database.parent.glob(f"{database.name}.making-*"):
        unfinished.unlink(missing_ok=True)
    put_aside(uri)
    from mlflow import MlflowClient

    new = database.with_name(f"{database.name}.making-{uuid.uuid4().hex[:8]}")  # MLflow caches connections by name
    address = f"sqlite:///{new}"
    MlflowClient(tracking_uri=address).search_experiments(max_results=1)
    close_engines(address, forget=True)
    with new.open("rb") as stream:
        os.fsync(stream.fileno())
    os.replace(new, database)


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
            return  # created but not filled yet
        folders = [Path(location).parent for (location,) in rows]
        roots = {str(folder) for folder in folders if folder.parts[-2:] == ("mlflow", "artifacts")}
        for root in roots - {str(artifacts)}:
            for table, column in PATH_COLUMNS:
                connection.execute(
                    f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE substr({column}, 1, ?) = ?",
                    (str(artifacts), len(root) + 1, len(root) + 1, root + "/"),
                )
