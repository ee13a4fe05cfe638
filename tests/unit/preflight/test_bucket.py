"""What the head of cluster.yaml does about the bucket: makes it once, and lets unfinished uploads and old logs go."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml

from tests import s3
from tests.levels import slow_but
from vse.cluster.node_logs import logs_of

ROOT = Path(__file__).resolve().parents[3]
ACCOUNT = "123456789012"


@pytest.fixture
def command() -> str:
    commands = yaml.safe_load((ROOT / "cluster.yaml").read_text())["head_setup_commands"]
    (found,) = (command for command in commands if "boto3" in command)
    return found


def head_of(home: Path, place: str, region: str) -> Callable[[str], None]:
    """Runs a command as the head of a cluster would, before a server of S3."""
    (home / ".vse_environment").write_text(
        f"export VSE_BUCKET=new-{region} VSE_ACCOUNT={ACCOUNT} AWS_REGION={region} AWS_DEFAULT_REGION={region}\n"
    )
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    given = {**s3.KEYS, "HOME": str(home), "PATH": path, "AWS_ENDPOINT_URL": f"http://{place}"}

    def run(command: str) -> None:
        done = subprocess.run(["bash", "-c", command], env=given, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    return run


@pytest.mark.process
@pytest.mark.parametrize("region", slow_but(["us-west-2", "us-east-1"], "us-west-2"))
def test_the_bucket_is_made_once_and_what_is_old_goes(command: str, tmp_path: Path, region: str) -> None:
    with s3.server() as place:
        head, client = head_of(tmp_path, place, region), boto3.client("s3", endpoint_url=f"http://{place}")

        def rules() -> list[dict[str, Any]]:
            return client.get_bucket_lifecycle_configuration(Bucket=f"new-{region}")["Rules"]

        head(command)
        assert client.get_bucket_location(Bucket=f"new-{region}")["LocationConstraint"] in (region, None)
        made = rules()
        client.delete_bucket_lifecycle(Bucket=f"new-{region}")  # as in one that was made by hand
        head(command)
        assert rules() == made
    unfinished, logs = made
    assert unfinished["Status"] == logs["Status"] == "Enabled"
    assert unfinished["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}
    assert (logs["Filter"], logs["Expiration"]) == ({"Prefix": "workspace/logs/"}, {"Days": 30})


def test_logs_go_from_where_they_are_kept() -> None:
    config = yaml.safe_load((ROOT / "cluster.yaml").read_text())
    assert any("VSE_WORKSPACE=s3://$VSE_BUCKET/workspace'" in command for command in config["setup_commands"])
    assert logs_of("s3://b/workspace", "session", "host").uri == "s3://b/workspace/logs/session/host"


def test_a_bucket_of_another_account_is_never_used(command: str) -> None:
    """S3 refuses whatever names its owner; the test's server does not."""
    calls = [call.partition("(") for call in command.split("boto3.client('s3').")[1:]]
    owned = {name: "ExpectedBucketOwner=account" in given for name, _, given in calls}
    assert owned == {"head_bucket": True, "create_bucket": False, "put_bucket_lifecycle_configuration": True}
