"""What MLflow does not promise and this package uses. After an upgrade of MLflow, a failure here says what to mend.

Each message names the part of `vse/tracking/mlflow_internals.py` to change. If all pass, set `CHECKED` to the new
version.
"""

import importlib
import logging
import sqlite3
from contextlib import closing
from importlib import metadata
from pathlib import Path

import pytest

from vse.tracking import mlflow_internals as internals
from vse.tracking.embedded import make_complete
from vse.tracking.store import RUN_TAG, Store
from vse.workspace import tracking_keys

TO_DO = "MLflow has changed; in vse/tracking/mlflow_internals.py"


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new store of the installed MLflow."""
    file = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    make_complete(f"sqlite:///{file}")
    return file


def test_the_installed_version_is_the_one_that_was_checked(caplog: pytest.LogCaptureFixture) -> None:
    installed = metadata.version("mlflow")
    assert installed.startswith(f"{internals.CHECKED}."), f"run the tests of this file, then set CHECKED to {installed}"
    internals.warn_of_version()
    assert not caplog.text


def test_another_version_is_one_warning(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: "9.9.0")
    with caplog.at_level(logging.WARNING):
        internals.warn_of_version()
    assert [record.getMessage() for record in caplog.records] == [
        f"MLflow 9.9.0: this package was checked with {internals.CHECKED}; "
        f"if tracking misbehaves, install mlflow=={internals.CHECKED}.*"
    ]


def test_limits_of_batches_and_values() -> None:
    from mlflow.utils import validation

    limits = {
        "ENTITIES_PER_BATCH": validation.MAX_ENTITIES_PER_BATCH,
        "PARAMS_PER_BATCH": validation.MAX_PARAMS_TAGS_PER_BATCH,
        "PARAM_LENGTH": validation.MAX_PARAM_VAL_LENGTH,
        "TAG_LENGTH": validation.MAX_TAG_VAL_LENGTH,
    }
    assert {name: getattr(internals, name) for name in limits} == limits, f"{TO_DO} set these limits"
    assert tracking_keys.KEY_LENGTH == validation.MAX_ENTITY_KEY_LENGTH, f"{TO_DO} set tracking_keys.KEY_LENGTH"
    assert internals.ENTITIES_PER_BATCH <= validation.MAX_METRICS_PER_BATCH, f"{TO_DO} lower ENTITIES_PER_BATCH"


def test_tags_of_the_pages() -> None:
    from mlflow.utils import mlflow_tags as tags

    assert internals.PARENT_TAG == tags.MLFLOW_PARENT_RUN_ID, f"{TO_DO} set PARENT_TAG"
    assert internals.SOURCE_TAG == tags.MLFLOW_SOURCE_NAME, f"{TO_DO} set SOURCE_TAG"
    assert internals.COMMIT_TAG == tags.MLFLOW_GIT_COMMIT, f"{TO_DO} set COMMIT_TAG"
    assert internals.NOTE_TAG == tags.MLFLOW_RUN_NOTE, f"{TO_DO} set NOTE_TAG"


def test_stores_keep_their_engines_by_address() -> None:
    for module in internals._STORES:
        store = importlib.import_module(module).SqlAlchemyStore
        assert isinstance(store._engine_map, dict), f"{TO_DO} find in {module} where connections are kept"


@pytest.mark.seconds
def test_columns_of_the_store(database: Path) -> None:
    with closing(sqlite3.connect(database)) as connection:
        for table, column in internals.PATH_COLUMNS:
            columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
            assert column in columns, f"{TO_DO} PATH_COLUMNS: {table} has {columns}"
        paths = {
            (table, row[1])
            for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            for row in connection.execute(f"PRAGMA table_info({table})")
            if row[1] in ("artifact_location", "artifact_uri", "storage_location")
        }
        unknown = paths - {*internals.PATH_COLUMNS}
        assert unknown <= {("logged_models", "artifact_location")}, f"{TO_DO} add to PATH_COLUMNS if we write {unknown}"
        stages = connection.execute(internals.FIRST_EXPERIMENT).fetchall()
        assert stages == [(internals.ACTIVE,)], f"{TO_DO} set FIRST_EXPERIMENT"
        assert connection.execute(internals.STAGE_OF_RUN, ("none",)).fetchall() == [], f"{TO_DO} set STAGE_OF_RUN"


@pytest.mark.seconds
def test_runs_are_found_by_an_index(database: Path, tmp_path: Path) -> None:
    store = Store(f"sqlite:///{database}", tmp_path / "artifacts")
    made = store.find_or_create("vse", "a", name="a", started=1)
    assert made[1] is False
    assert store.find_or_create("vse", "a", name="a", started=1) == (made[0], True)
    assert store.find_or_create("vse", "b", name="b", started=1)[1] is False
    query = internals.RUN_WITH_TAG.format(key=RUN_TAG)
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute(query, ("a",)).fetchall() == [(made[0],)], f"{TO_DO} set RUN_WITH_TAG"
        (*_, plan) = connection.execute(f"EXPLAIN QUERY PLAN {query}", ("a",)).fetchone()
    assert "vse_runs" in plan, f"{TO_DO} set INDEX_OF_TAG"


@pytest.mark.seconds
def test_closed_engines_are_forgotten(database: Path) -> None:
    from mlflow import MlflowClient
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    uri = f"sqlite:///{database}"
    MlflowClient(tracking_uri=uri).search_experiments()
    assert uri in SqlAlchemyStore._engine_map
    internals.close_engines(uri, forget=True)
    assert uri not in SqlAlchemyStore._engine_map


@pytest.mark.seconds
def test_keys_of_the_browser_are_those_of_the_pages() -> None:
    import mlflow.server

    static = Path(mlflow.server.__file__).parent / "js" / "build" / "static" / "js"
    scripts = "".join(file.read_text(encoding="utf-8") for file in static.glob("*.js"))
    for key in internals.BROWSER_CHOICES:
        name = key.removesuffix("_v1")  # the pages append the version
        assert name in scripts, f"{TO_DO} BROWSER_CHOICES: the pages have no {name}"
    assert internals.VIEW_TAG.removesuffix(".") in scripts, f"{TO_DO} set VIEW_TAG"
    assert internals.EXPERIMENT_KIND_TAG in scripts, f"{TO_DO} set EXPERIMENT_KIND_TAG"
    assert internals.TRAINING in scripts, f"{TO_DO} set TRAINING"
