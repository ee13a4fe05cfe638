"""S3 servers other than Amazon's: what the pages say about `AWS_ENDPOINT_URL_S3`."""

import pytest
from mlflow.store.artifact import s3_artifact_repo

from vse.storage import object_store


@pytest.mark.seconds
def test_the_workspace_and_mlflow_take_the_server_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:9")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    object_store._server.cache_clear()
    try:
        assert object_store._server("us-east-1", "", 5.0).client.meta.endpoint_url == "http://127.0.0.1:9"
        assert object_store._server("us-east-1", "http://h:1", 5.0).client.meta.endpoint_url == "http://h:1"
    finally:
        object_store._server.cache_clear()
    assert s3_artifact_repo._get_s3_client().meta.endpoint_url == "http://127.0.0.1:9"


def test_mlflow_does_not_read_the_options_of_an_address() -> None:
    address = "s3://b/w?endpoint_override=h:1&scheme=http/mlflow"
    assert s3_artifact_repo.S3ArtifactRepository(address).parse_s3_compliant_uri(address) == ("b", "w")
