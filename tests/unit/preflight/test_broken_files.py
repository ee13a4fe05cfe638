"""Cluster files with parts missing, empty or of another kind: lines that name the fault, and no account is asked."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from botocore.exceptions import ClientError
from moto import mock_aws

from tests.levels import slow_but
from vse.cli.command import Request
from vse.errors import InputError
from vse.preflight import run
from vse.preflight.aws import _Account, check_account
from vse.preflight.checks import Check
from vse.preflight.cluster_file import check_cluster_file, check_token, problems
from vse.preflight.run import PreflightOptions, run_preflight

ROOT = Path(__file__).resolve().parents[3]


class Gone:
    def __repr__(self) -> str:
        return "gone"


GONE = Gone()
Steps = tuple[Any, ...]


def read(file: str) -> dict[str, Any]:
    return yaml.safe_load((ROOT / file).read_text())


def steps_to(data: Any, above: Steps = ()) -> Iterator[Steps]:
    """The way to every part of nested data."""
    inside = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in inside:
        yield (*above, key)
        yield from steps_to(value, (*above, key))


def changed(data: dict[str, Any], steps: Steps, value: Any) -> dict[str, Any]:
    """A copy with one part replaced, or taken out."""
    found = part = copy.deepcopy(data)
    for step in steps[:-1]:
        part = part[step]
    if value is GONE:
        del part[steps[-1]]
    else:
        part[steps[-1]] = value
    return found


@pytest.mark.seconds
@pytest.mark.parametrize("file", ["cluster.yaml", "cluster-onprem.yaml"])
@pytest.mark.parametrize(
    "value", slow_but([GONE, None, "", [], {}, 5, "x", [None], [5], {"x": None}], GONE, None, [5]), ids=str
)
def test_the_lint_speaks_of_anything(file: str, value: Any, tmp_path: Path) -> None:
    data = read(file)
    for steps in steps_to(data):
        config = changed(data, steps, value)
        lines = list(problems(config, root=tmp_path, ray_version="2.60.0", constraints=""))
        assert all("\n" not in line for line in lines), steps
        check_token(config)


def wrong(config: dict[str, Any]) -> list[Check]:
    return [check for check in check_cluster_file(config, str(ROOT / "cluster.yaml")) if check.state == "problem"]


class Denied:
    """An account that says which machines there are, and nothing else."""

    def get_credentials(self) -> "Denied":
        return self

    def client(self, service: str, **_: Any) -> "Denied":
        return self

    def describe_instance_types(self, *, InstanceTypes: list[str]) -> dict[str, Any]:
        return {"InstanceTypes": [{"InstanceType": each, "VCpuInfo": {"DefaultVCpus": 8}} for each in InstanceTypes]}

    def __getattr__(self, name: str) -> Any:
        raise ClientError({"Error": {"Code": "AccessDenied"}}, name)


@pytest.mark.seconds
@pytest.mark.parametrize("value", slow_but([GONE, None, {}, "x"], GONE), ids=["gone", "none", "empty", "text"])
def test_an_account_is_asked_about_any_file_without_fault(value: Any) -> None:
    data, asked = read("cluster.yaml"), 0
    for steps in steps_to(data):
        if steps[:2] in (("available_node_types", "cpu"), ("available_node_types", "gpu")):
            continue  # like gpu_spot
        if steps[0] in ("provider", "available_node_types", "head_node_type"):
            config = changed(data, steps, value)
            if not wrong(config):
                assert {check.state for check in check_account(config, Denied())} == {"not checked"}
                asked += 1
    assert asked > 2


@pytest.mark.parametrize(
    ("steps", "value", "words"),
    [
        (("available_node_types", "gpu"), None, "gpu: ImageId must name an image"),
        (("available_node_types", "gpu", "labels"), None, "gpu: is on-demand, so it needs the label"),
        (("available_node_types", "gpu", "node_config", "IamInstanceProfile"), GONE, "gpu: IamInstanceProfile is miss"),
        (("available_node_types", "gpu", "node_config", "IamInstanceProfile"), {}, "gpu: IamInstanceProfile is miss"),
        (("available_node_types", "gpu", "node_config", "ImageId"), GONE, "gpu: ImageId must name an image"),
        (("available_node_types", "gpu", "node_config", "InstanceType"), GONE, "gpu: InstanceType is missing"),
        (("provider", "region"), GONE, "provider.region: missing"),
        (("provider",), None, "provider.region: missing"),
        (("head_node_type",), "haed", "head_node_type: haed is not one of available_node_types"),
    ],
)
def test_a_fault_is_told_with_credentials_there(
    steps: Steps,
    value: Any,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(run, "check_account", lambda config: pytest.fail("the account is asked"))
    monkeypatch.setattr(run, "check_this_machine", lambda workspace: [])
    monkeypatch.setattr(run, "set_up_logging", lambda: None)
    file = tmp_path / "cluster.yaml"
    file.write_text(yaml.safe_dump(changed(read("cluster.yaml"), steps, value)))
    options = PreflightOptions(cluster=str(file))
    asked = Request(
        job="preflight",
        workspace=str(tmp_path),
        preset=None,
        config=None,
        options=options,
        changed=frozenset(),
        tracking=None,
    )
    with pytest.raises(InputError, match="problem"):
        run_preflight(asked)
    told = capsys.readouterr().out
    assert words in told
    if steps != ("provider",):
        assert "fix the file first" in told


@pytest.mark.seconds
def test_a_profile_may_be_named_by_its_arn(monkeypatch: pytest.MonkeyPatch) -> None:
    import boto3

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    config = read("cluster.yaml")
    arn = "arn:aws:iam::123456789012:instance-profile/team/vse-gpu"
    config["available_node_types"]["gpu"]["node_config"]["IamInstanceProfile"] = {"Arn": arn}
    assert wrong(config) == []
    with mock_aws():
        boto3.client("iam").create_instance_profile(InstanceProfileName="vse-gpu", Path="/team/")
        told = {check.detail for check in _Account(config, boto3.Session(), "us-west-2", "here").profiles()}
    assert "vse-gpu has no role" in told
