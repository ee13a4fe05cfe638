"""The embedded store plans its queries by the numbers of rows that it has."""

import sqlite3
from pathlib import Path

import pytest

from tests.unit.tracking.test_shipping import runs_of, write_run
from vse.tracking.shipping import Shipper

pytestmark = pytest.mark.seconds


def test_rows_are_counted_after_every_pass(workspace: Path) -> None:
    """SQLite plans MLflow's queries by these counts, and the first pass of a sweep finds an empty store."""
    shipper = Shipper(str(workspace))
    for number in (1, 5):
        for run in range(number):
            write_run(workspace, f"run-{number}-{run}").end()
        shipper.ship()
        with sqlite3.connect(workspace / "mlflow" / "mlflow.db") as connection:
            ((counted,),) = connection.execute("SELECT stat FROM sqlite_stat1 WHERE idx = 'sqlite_autoindex_runs_1'")
        assert counted.split()[0] == str(len(runs_of(workspace)))
