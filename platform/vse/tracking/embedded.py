"""MLflow's store in a SQLite file: whether it is whole, and a new one where it is not. All that is in it is in the
journals, so a damaged file is put aside and filled again.

Questions are asked of the file itself, without importing mlflow.
"""

import os
import sqlite3
import sys
import time
import uuid
from contextlib import closing
from pathlib import Path

from vse.workspace.redaction import redact_text

_ACTIVE = "active"  # the stage of a run that is not deleted
_PATIENCE = 10.0  # seconds to wait for a lock of another process
# Where the embedded store keeps absolute paths of artifacts
_WITH_PATHS = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)
_STORES = ("mlflow.store.tracking.sqlalchemy_store", "mlflow.store.model_registry.sqlalchemy_store")


def file_of(uri: str) -> Path:
    """The file of a sqlite:/// address."""
    return Path(uri.removeprefix("sqlite:///").partition("?")[0])


def damage(uri: str) -> str:
    """What is wrong with the pages of a store's file, read all through; empty if nothing is, or if there is no file.

    A store of 10,000 runs with 480 points each (1.6 GB) takes 3 s. Raises sqlite3.OperationalError if the file cannot
    be read now, as while another process locks it.
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
    """Put a damaged store aside; returns the line that says so, empty if there is no damage.

    ours: whether the store belongs to the workspace, whose journals have all that is in it. Raises OSError for a
    damaged one that does not.
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
    """Why a store cannot be used, in a line, for errors that say it badly; empty for all others."""
    if is_locked(error):
        return "another process has locked it"
    if "database schema" in str(error):
        return (
            "another version of MLflow wrote it; use that one, or make a copy and run `mlflow db upgrade "
            f"{redact_text(uri)}`, or move it away to have it filled anew from the journals"
        )
    return ""


def is_damage(error: BaseException) -> bool:
    """Whether a query failed because of what is in the file, rather than because of who else uses it."""
    return "malformed" in str(error) or "not a database" in str(error)


def is_locked(error: BaseException) -> bool:
    """Whether a query failed because another process holds the file."""
    return "database is locked" in str(error) or "database table is locked" in str(error)


def put_aside(uri: str) -> str:
    """Rename a store's file and its logs, if they are there; returns the new name of the file, empty if there was none.

    MLflow keeps its connections for ever: those of this process are closed, or they would go on writing to that file.
    """
    database, aside = file_of(uri), ""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    for name in ("-journal", "-wal", "-shm", ""):
        if Path(f"{database}{name}").exists():
            aside = f"{database}.damaged-{stamp}{name}"
            os.replace(f"{database}{name}", aside)
    for module in _STORES:
        if (engine := _engines(module).get(uri)) is not None:
            engine.dispose()
    return aside


def _engines(module: str) -> dict:
    loaded = sys.modules.get(module)
    return {} if loaded is None else loaded.SqlAlchemyStore._engine_map


def is_whole(uri: str) -> bool:
    """Whether a store is there with its tables complete: MLflow's first experiment is the last thing made."""
    return _counts(file_of(uri), "SELECT count(*) FROM experiments")


def file_knows(uri: str, run_id: str) -> bool:
    """`Store.knows` of a SQLite file."""
    return _counts(file_of(uri), "SELECT count(*) FROM runs WHERE run_uuid = ?", run_id)


def file_is_active(uri: str, run_id: str) -> bool:
    """`Store.is_active` of a SQLite file."""
    query = "SELECT count(*) FROM runs WHERE run_uuid = ? AND lifecycle_stage = ?"
    return _counts(file_of(uri), query, run_id, _ACTIVE)


def _counts(database: Path, query: str, *values: str) -> bool:
    """Whether a file is a database with such rows; one that is only busy, or read-only, is taken to have them."""
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
    """Make the embedded store, unless it is whole, under another name and rename it.

    MLflow makes its tables in some thirty steps, and cannot go on from the middle of them after a kill or on a disk
    that was full.
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
    engine = _engines(_STORES[0]).pop(address, None)
    if engine is not None:
        engine.dispose()
    with making.open("rb") as stream:
        os.fsync(stream.fileno())
    os.replace(making, database)


def relocate(uri: str, artifacts: Path) -> None:
    """Make a moved workspace whole: the embedded store names artifact folders by absolute path.

    The old root is what the experiments' folders have in common with `<workspace>/mlflow/artifacts/<experiment>`.
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
            for table, column in _WITH_PATHS:
                connection.execute(
                    f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE substr({column}, 1, ?) = ?",
                    (str(artifacts), len(root) + 1, len(root) + 1, root + "/"),
                )
