"""All uses of undocumented details of MLflow: an upgrade of MLflow breaks this module only.

`tests/unit/tracking/test_mlflow_internals.py` checks each of these against the installed MLflow.
"""

import logging
import sys
from importlib import metadata
from typing import Any

log = logging.getLogger(__name__)

CHECKED = "3.17"
"""Version (major and minor) of MLflow against which this module was checked."""

# What MLflow accepts in one batch and in one value (mlflow.utils.validation); workspace/tracking_keys.py cuts keys
ENTITIES_PER_BATCH, PARAMS_PER_BATCH, PARAM_LENGTH, TAG_LENGTH = 1000, 100, 6000, 8000

# Tags with a meaning in MLflow's pages
PARENT_TAG, NOTE_TAG, EXPERIMENT_KIND_TAG = "mlflow.parentRunId", "mlflow.note.content", "mlflow.experimentKind"
SOURCE_TAG, COMMIT_TAG = "mlflow.source.name", "mlflow.source.git.commit"
TRAINING = "custom_model_development"  # kind of experiment whose page opens on the table of runs
VIEW_TAG = "mlflow.sharedViewState."  # followed by a key, by which an address selects columns of the table of runs
# Defaults for the browser's storage, under the keys of MLflow's pages
BROWSER_CHOICES = {
    "mlflow.workflowType_v1": "machine_learning",
    "mlflow.assistant.panelOpen_v1": False,
    "mlflow.assistant.fab.autoOpenedOnFirstLoad_v1": True,
}

# The SQLite store: columns with absolute paths of artifacts, and queries
PATH_COLUMNS = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)
FIRST_EXPERIMENT = "SELECT lifecycle_stage FROM experiments"  # MLflow creates its first experiment last
STAGE_OF_RUN = "SELECT lifecycle_stage FROM runs WHERE run_uuid = ?"
# MLflow's own query for a tag reads the tag of every run, so its time grows with the store
INDEX_OF_TAG = "CREATE INDEX IF NOT EXISTS vse_runs ON tags (value) WHERE key = '{key}'"
RUN_WITH_TAG = "SELECT run_uuid FROM tags WHERE key = '{key}' AND value = ?"
ACTIVE = "active"  # the lifecycle stage of a run that is not deleted
_STORES = ("mlflow.store.tracking.sqlalchemy_store", "mlflow.store.model_registry.sqlalchemy_store")


def warn_of_version() -> None:
    """Log one line if another version of MLflow is installed than `CHECKED`."""
    installed = metadata.version("mlflow")
    if installed.split(".")[:2] != CHECKED.split("."):
        log.warning(
            "MLflow %s: this package was checked with %s; if tracking misbehaves, install mlflow==%s.*",
            installed,
            CHECKED,
            CHECKED,
        )


def close_engines(uri: str, *, forget: bool = False) -> None:
    """Close this process's connections to a store, which MLflow would keep using forever.

    With `forget`, MLflow creates a new engine next time. Otherwise the same engine opens the file that has the name
    then.
    """
    for module in filter(None, map(sys.modules.get, _STORES)):
        engines: Any = module.__dict__["SqlAlchemyStore"]._engine_map
        if uri in engines:
            engines[uri].dispose()
        if forget:
            engines.pop(uri, None)


def is_damage(error: BaseException) -> bool:
    """Whether a query failed because the file is damaged."""
    return "malformed" in str(error) or "not a database" in str(error)


def is_locked(error: BaseException) -> bool:
    """Whether a query failed because another process holds the file."""
    return "database is locked" in str(error) or "database table is locked" in str(error)


def is_other_schema(error: BaseException) -> bool:
    """Whether another version of MLflow wrote the store."""
    return "database schema" in str(error)


def web_pages() -> tuple[Any, Any]:
    """MLflow's Flask application, whose view `serve` returns the single page, and the FastAPI application around it."""
    from mlflow.server import app as pages
    from mlflow.server.fastapi_app import app

    return pages, app
