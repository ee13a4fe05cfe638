"""What the head of cluster.yaml does about the bucket: makes it once, and lets unfinished uploads go."""

import os
import subprocess
import sys
from pathlib import Path

import boto3
import pytest
import yaml

from tests import s3

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("region", ["us-west-2", "us-east-1"])
def test_the_bucket_is_made_once_and_unfinished_uploads_go(tmp_path: Path, region: str) -> None:
    (command,) = (c for c in yaml.safe_load((ROOT / "cluster.yaml").read_text())["head_setup_commands"] if "boto3" in c)
    (tmp_path / ".vse_environment").write_text(
        f"export VSE_BUCKET=new-{region} AWS_REGION={region} AWS_DEFAULT_REGION={region}\n"
    )
    with s3.server() as place:
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        given = {**s3.KEYS, "HOME": str(tmp_path), "PATH": path, "AWS_ENDPOINT_URL": f"http://{place}"}
        for _ in range(2):
            done = subprocess.run(["bash", "-c", command], env=given, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        client = boto3.client("s3", endpoint_url=f"http://{place}", region_name=region)
        assert client.get_bucket_location(Bucket=f"new-{region}")["LocationConstraint"] in (region, None)
        (rule,) = client.get_bucket_lifecycle_configuration(Bucket=f"new-{region}")["Rules"]
    assert rule["Status"] == "Enabled"
    assert rule["AbortIncompleteMultipartUpload"] == {"DaysAfterInitiation": 7}
