"""Where a scenario works: a folder of this machine, or servers of S3 and MLflow that can be killed and come back."""

import contextlib
from collections.abc import Generator
from pathlib import Path

from tests.faults.scenarios import Place, Scenario
from tests.s3 import BUCKET, KEYS, address
from tests.servers import Server, mlflow_server, s3_server, serving


@contextlib.contextmanager
def prepared(scenario: Scenario, folder: Path) -> Generator[tuple[Place, dict[str, Server]]]:
    """The place for a scenario, empty, and its servers, which serve, by the names of victims."""
    folder.mkdir(parents=True, exist_ok=True)
    if not scenario.served:
        yield Place.local(folder), {}
        return
    objects, store = folder / "s3", folder / "mlflow.db"
    (objects / BUCKET).mkdir(parents=True)
    bucket = s3_server(objects, folder)
    tracker = mlflow_server(f"sqlite:///{store}", str(folder / "artifacts"), folder)
    with serving(bucket, tracker):
        place = Place(
            folder,
            address(f"127.0.0.1:{bucket.port}", "workspace"),
            objects / BUCKET / "workspace",
            store,
            {**KEYS, "MLFLOW_TRACKING_URI": tracker.uri, "VSE_CACHE": str(folder / "cache")},
        )
        yield place, {server.name: server for server in (bucket, tracker)}
