"""Journals of a workspace on S3 (a server on this machine plays S3)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from vse import journal
from vse.storage import Folder
from vse.tracking import embedded_uri, ship_all


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    import boto3
    from moto.server import ThreadedMotoServer

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("VSE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    _, port = server.get_host_and_port()
    client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1")
    client.create_bucket(Bucket="vse")
    yield f"s3://vse/workspace?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
    client.close()
    server.stop()


@pytest.mark.slow
def test_a_workspace_on_s3_is_shipped(bucket: str, tmp_path: Path) -> None:
    root = Folder.open(bucket)
    run = root.child("runs", "univse-0.75-0123abcd")
    book = journal.open_in(run, tmp_path / "scratch")
    book.start("0123abcd", name="univse", experiment="alpha")
    book.metrics({"val/rsum": 100.0}, step=1)
    run.write_json("table.json", {"r1": 1})
    book.artifact(tmp_path / "scratch" / "table.json", under="tables")
    book.end()
    root.child("runs", "univse-0.75-0123abcd", "checkpoints").write_bytes("last.bin", b"x")
    result = ship_all(bucket)
    assert (result.runs, result.trouble) == (1, "")
    from mlflow import MlflowClient

    found = MlflowClient(tracking_uri=embedded_uri(bucket))
    (shipped,) = found.search_runs([e.experiment_id for e in found.search_experiments()])
    assert shipped.data.metrics == {"val/rsum": 100.0}
    assert shipped.info.status == "FINISHED"
    assert [a.path for a in found.list_artifacts(shipped.info.run_id, "tables")] == ["tables/table.json"]
    assert ship_all(bucket).runs == 0
