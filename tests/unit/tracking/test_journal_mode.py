"""The mode in which SQLite writes the embedded store, on a disk of one machine and on a shared one."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from vse.tracking import store
from vse.tracking.embedded import write_ahead

MOUNTS = r"""
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:40 / /shared rw,relatime shared:2 - nfs4 fs:/export rw,vers=4.2
31 30 0:41 / /shared/fast\040disk rw - xfs /dev/sdb rw
32 22 0:42 / /data rw - xfs /dev/sdc rw
33 22 0:43 / /data rw - lustre mgs:/data rw
34 22 0:44 / /home rw - fuse.sshfs host: rw
"""


@pytest.mark.parametrize(
    ("path", "safe"),
    [
        ("/srv/mlflow.db", True),
        ("/shared/mlflow.db", False),
        ("/sharedmlflow.db", True),
        ("/shared/fast disk/mlflow.db", True),
        ("/data/mlflow.db", False),  # the later of two mounts
        ("/home/mlflow.db", False),
    ],
)
def test_a_write_ahead_log_is_for_file_systems_of_one_machine(tmp_path: Path, path: str, safe: bool) -> None:
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS.lstrip())
    assert write_ahead(path, mounts) is safe
    assert write_ahead(path, tmp_path / "no such list")


@pytest.mark.seconds
@pytest.mark.parametrize(("safe", "mode"), [(True, "wal"), (False, "delete")])
def test_the_store_changes_to_the_mode_of_its_file_system(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, safe: bool, mode: str
) -> None:
    database = workspace / "mlflow" / "mlflow.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(f"PRAGMA journal_mode={'DELETE' if safe else 'WAL'}")
    monkeypatch.setattr(store, "write_ahead", lambda path: safe)
    store.Store(f"sqlite:///{database}", workspace / "mlflow" / "artifacts").answers()
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == (mode,)
