"""A workspace with an embedded MLflow."""

import shutil
from pathlib import Path

import pytest

from vse.tracking import prometheus


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture(scope="module")
def fresh_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An embedded store with its tables and nothing else; making them takes longer than any test here."""
    from vse.tracking.store import Store

    database = tmp_path_factory.mktemp("fresh") / "mlflow.db"
    Store(f"sqlite:///{database}")
    return database


@pytest.fixture
def workspace(tmp_path: Path, fresh_store: Path) -> Path:
    (tmp_path / "workspace" / "mlflow").mkdir(parents=True)
    shutil.copy(fresh_store, tmp_path / "workspace" / "mlflow" / "mlflow.db")
    return tmp_path / "workspace"


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Values of the gauge of spooled runs."""
    values = list[float]()
    monkeypatch.setattr(prometheus, "show", lambda name, value: values.append(value))
    return values
