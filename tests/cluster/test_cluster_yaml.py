"""The cluster files: Ray's own schema, our lint (each rule shown able to fail), AWS's bootstrap against a fake AWS."""

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.levels import slow
from vse.preflight.cluster_file import problems

ROOT = Path(__file__).resolve().parents[2]
CONSTRAINTS = (ROOT / "constraints.txt").read_text()


@pytest.fixture
def config() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "cluster.yaml").read_text())


@pytest.fixture
def onprem() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "cluster-onprem.yaml").read_text())


def found(config: dict[str, Any], constraints: str = CONSTRAINTS) -> list[str]:
    return list(problems(config, root=ROOT, ray_version=metadata.version("ray"), constraints=constraints))


def test_lint_is_content(config: dict[str, Any], onprem: dict[str, Any]) -> None:
    assert found(config) == found(onprem) == []


def test_both_files_install_the_same(config: dict[str, Any], onprem: dict[str, Any]) -> None:
    assert config["file_mounts"] == onprem["file_mounts"]
    install = [command for command in config["setup_commands"] if "pip install" in command]
    assert install == [command for command in onprem["setup_commands"] if "pip install" in command]


def _drop(path: str) -> Callable[[dict[str, Any]], None]:
    def change(config: dict[str, Any]) -> None:
        *steps, last = path.split("/")
        for step in steps:
            config = config[step]
        del config[last]

    return change


def _put(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(config: dict[str, Any]) -> None:
        *steps, last = path.split("/")
        for step in steps:
            config = config[step]
        config[last] = value

    return change


def _swap(old: str, new: str) -> Callable[[dict[str, Any]], None]:
    def change(config: dict[str, Any]) -> None:
        for key, value in config.items():
            if key.endswith("_commands"):
                config[key] = [command.replace(old, new) for command in value]

    return change


def _unowned(statement: int) -> Callable[[dict[str, Any]], None]:
    def change(config: dict[str, Any]) -> None:
        del config["metadata"]["policies"]["storage"]["Statement"][statement]["Condition"]

    return change


GPU, SPOT, HEAD = (f"available_node_types/{name}" for name in ("gpu", "gpu_spot", "head"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_drop(f"{GPU}/node_config/ImageId"), "gpu: ImageId"),
        (_drop(f"{GPU}/node_config/IamInstanceProfile"), "gpu: IamInstanceProfile"),
        (_drop(f"{HEAD}/node_config/IamInstanceProfile"), "head: IamInstanceProfile"),
        (_put(f"{GPU}/node_config/InstanceType", "p3.2xlarge"), "no longer supports"),
        (_put("cluster_name", "vse-anna"), "ray-cluster-name vse only, but cluster_name is vse-anna"),
        (_unowned(0), "metadata: s3:ListBucket is not limited to the account itself (aws:ResourceAccount)"),
        (_unowned(1), "metadata: s3:GetObject is not limited to the account itself (aws:ResourceAccount)"),
        (_put(f"{GPU}/resources", {"CPU": 8, "GPU": 0.5}), "gpu: resources"),
        (
            _put(f"{GPU}/node_config/InstanceMarketOptions", {"MarketType": "spot"}),
            "gpu: is spot, so it needs the label",
        ),
        (_drop(f"{SPOT}/node_config/InstanceMarketOptions"), "gpu_spot: is on-demand, so it needs the label"),
        (_drop(GPU), "no GPU type is labelled vse.lifecycle: on-demand"),
        (_drop(SPOT), "no GPU type is labelled vse.lifecycle: spot"),
        (_drop(f"{GPU}/node_config/BlockDeviceMappings"), "gpu: BlockDeviceMappings"),
        (_drop(f"{SPOT}/node_config/UserData"), "gpu_spot: goes on costing when the head is gone"),
        (_drop(f"{GPU}/node_config/InstanceInitiatedShutdownBehavior"), "gpu: goes on costing when the head is gone"),
        (_drop("provider/security_group"), "port 22 open to the world"),
        (_swap("vse.cluster.node_logs", "vse.nothing"), "worker_start_ray_commands: logs stay on the node"),
        (_put(f"{HEAD}/node_config/InstanceMarketOptions", {"MarketType": "spot"}), "head must not be a spot"),
        (_put(f"{HEAD}/max_workers", 1), "max_workers: 0"),
        (_put(f"{HEAD}/resources", {"CPU": 4, "GPU": 1}), "the head must offer no GPU"),
        (_drop(f"{GPU}/max_workers"), "gpu: max_workers"),
        (_put(f"{GPU}/max_workers", 5), "max_workers: 14 for all node types together, though theirs add up to 15"),
        (_drop("max_workers"), "max_workers: 2 for all node types together, though theirs add up to 14"),
        (_drop(f"{GPU}/idle_timeout_s"), "gpu: idle_timeout_s"),
        (_drop("idle_timeout_minutes"), "idle_timeout_minutes"),
        (_drop("provider/cache_stopped_nodes"), "cache_stopped_nodes"),
        (_put("min_workers", 1), "min_workers: silently ignored"),
        (_drop("setup_commands"), "nightly"),
        (_swap("==2.60.0", "==2.59.0"), "pinned to ['2.59.0']"),
        (_swap("-c ~/vse/constraints.txt", ""), "not held by constraints"),
        (_swap("RAY_AUTH_MODE=token", "RAY_AUTH_MODE=disabled"), "RAY_AUTH_MODE"),
        (_swap("--dashboard-host=127.0.0.1", "--dashboard-host=0.0.0.0"), "listen on 0.0.0.0, which is not a private"),
        (_swap("--host 127.0.0.1", "--host 8.8.8.8"), "listen on 8.8.8.8"),
        (_swap("--num-gpus=0", ""), "--num-gpus=0"),
        (_swap("OMP_NUM_THREADS", "NOTHING"), "OMP_NUM_THREADS"),
        (
            _swap("OMP_NUM_THREADS=1 ray start --address", "OMP_NUM_THREADS=4 ray start --address"),
            "OMP_NUM_THREADS is not 1",
        ),
        (_swap("VSE_WORKSPACE=s3://", "VSE_WORKSPACE=/tmp/"), "must be on S3"),
        (_put("provider/region", "eu-central-1"), "metadata: names us-west-2, but provider.region is eu-central-1"),
        (_put("provider/availability_zone", "eu-west-1a,eu-west-1b"), "provider: names eu-west-1, but provider.region"),
        (_swap("REGION=us-west-2", "REGION=us-gov-west-1"), "setup_commands: names us-gov-west-1, but provider.region"),
        (_swap("!= 'us-east-1'", "in 'us-east-1'"), "head_setup_commands: names us-east-1, but provider.region"),
        (_swap("AWS_METADATA_SERVICE_TIMEOUT", "NOTHING"), "AWS_METADATA_SERVICE_TIMEOUT"),
        (_swap("AWS_METADATA_SERVICE_NUM_ATTEMPTS", "NOTHING"), "AWS_METADATA_SERVICE_NUM_ATTEMPTS"),
        (_swap("MLFLOW_TRACKING_URI=http://", "MLFLOW_TRACKING_URI=sqlite:///"), "would not find the server"),
        (_swap("~/venv/bin/python", "password=x ~/venv/bin/python"), "a secret"),
    ],
)
def test_every_rule_can_fail(config: dict[str, Any], change: Callable[[dict[str, Any]], None], words: str) -> None:
    change(config)
    assert any(words in problem for problem in found(config)), found(config)


def test_a_cluster_name_changed_everywhere_is_right(config: dict[str, Any]) -> None:
    statements = config["metadata"]["policies"]["instances"]["Statement"]
    (condition,) = [each["Condition"] for each in statements if "ec2:TerminateInstances" in each["Action"]]
    config["cluster_name"] = "vse-anna"
    for names, right in (("vse-anna", True), (["vse", "vse-anna"], True), (["vse"], False)):
        condition["StringEquals"]["aws:ResourceTag/ray-cluster-name"] = names
        assert (found(config) == []) is right


@pytest.mark.parametrize("region", ["us-east-1", "eu-central-1", "us-gov-west-1", "ap-southeast-2"])
def test_a_region_changed_everywhere_is_right(region: str) -> None:
    assert found(yaml.safe_load((ROOT / "cluster.yaml").read_text().replace("us-west-2", region))) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_put("provider/head_ip", "head.example.org"), "head.example.org is not an IP address"),
        (_put("provider/worker_ips", ["192.168.1.11", "192.168.1.11"]), "listed twice"),
        (_put("available_node_types", {}), "a list of hosts has none"),
        (_drop("auth/ssh_private_key"), "ssh_private_key"),
        (_swap("RAY_enable_autoscaler_v2=0", ""), "workers of a list start only with"),
        (_swap("--node-ip-address=", "--nothing="), "worker_start_ray_commands: --node-ip-address"),
        (_swap("VSE_WORKSPACE=", "NOTHING="), "a default workspace"),
        (_swap("RAY_AUTH_MODE=token", "RAY_AUTH_MODE=disabled"), "RAY_AUTH_MODE"),
        (_swap("==2.60.0", "==2.59.0"), "pinned to ['2.59.0']"),
    ],
)
def test_rules_of_a_list_of_hosts_can_fail(
    onprem: dict[str, Any], change: Callable[[dict[str, Any]], None], words: str
) -> None:
    change(onprem)
    assert any(words in problem for problem in found(onprem)), found(onprem)


@pytest.mark.parametrize(
    ("remote", "local", "words"),
    [
        ("~/vse/x", "no-such-folder", "does not exist"),
        ("~/vse", ".", "too large"),
        ("~/.aws", "~/.aws", "personal file"),
        ("~/.ray/auth_token", None, "token does not reach"),
    ],
)
def test_mounts_are_checked(config: dict[str, Any], remote: str, local: str | None, words: str) -> None:
    if local is None:
        del config["file_mounts"][remote]
    else:
        config["file_mounts"][remote] = local
    assert any(words in problem for problem in found(config)), found(config)


def test_a_missing_pin_is_seen(config: dict[str, Any]) -> None:
    assert any("does not pin" in problem for problem in found(config, constraints="ray==2.59.0\n"))


def in_a_process(code: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Ray's launcher warns and prints as it likes; what it does to warnings must not reach other tests."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "platform"), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


SCHEMA = """
import sys, yaml
from ray.autoscaler._private.util import prepare_config, validate_config
config = yaml.safe_load(open(sys.argv[1]))
%s
prepared = prepare_config(config)
validate_config(prepared)
assert prepared["available_node_types"].get("head", {"max_workers": 0})["max_workers"] == 0
print("valid")
"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("file", "change", "valid"),
    [
        ("cluster.yaml", "", True),
        ("cluster-onprem.yaml", "", True),
        ("cluster.yaml", "config['available_node_types']['gpu']['max_worker'] = 3", False),
        *slow(
            [
                ("cluster.yaml", "config['available_node_types']['gpu']['resources']['GPU'] = 0.5", False),
                ("cluster.yaml", "config['anything'] = 1", False),
                ("cluster-onprem.yaml", "del config['provider']['head_ip']", False),
            ]
        ),
    ],
)
def test_rays_own_schema(file: str, change: str, valid: bool) -> None:
    done = in_a_process(SCHEMA % change, file)
    assert (done.returncode == 0) is valid, done.stderr
    assert ("valid" in done.stdout) is valid


BOOTSTRAP = """
import base64, copy, os, sys, time, yaml
prepared = sys.argv[1:] == ["prepared"]
from moto import mock_aws
from ray.autoscaler._private.util import prepare_config
time.sleep = lambda seconds: None
with mock_aws(config={"iam": {"load_aws_managed_policies": True}}):
    import boto3
    iam, ec2 = boto3.client("iam"), boto3.client("ec2", region_name="us-west-2")
    for name in ("vse-head", "vse-worker"):
        iam.create_role(RoleName=name, AssumeRolePolicyDocument="{}")
        iam.create_instance_profile(InstanceProfileName=name)
        iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
    ec2.create_key_pair(KeyName="k")
    (vpc,) = ec2.describe_vpcs()["Vpcs"]
    if prepared:
        group = ec2.create_security_group(GroupName="vse", Description="nodes", VpcId=vpc["VpcId"])["GroupId"]
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[
            {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]},
            {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "198.51.100.7/32"}]}])
    config = yaml.safe_load(open("cluster.yaml"))
    image = ec2.describe_images()["Images"][0]["ImageId"]
    for kind in config["available_node_types"].values():
        kind["node_config"].update(ImageId=image, KeyName="k")
    config["auth"]["ssh_private_key"] = "/dev/null"
    from ray.autoscaler._private.aws.config import bootstrap_aws
    from ray.autoscaler._private.aws.node_provider import AWSNodeProvider
    ready = bootstrap_aws(prepare_config(config))
    stated = copy.deepcopy(config["available_node_types"])
    ready = AWSNodeProvider.fillout_available_node_types_resources(ready)
    kinds = ready["available_node_types"]
    assert {k: v["node_config"]["IamInstanceProfile"]["Name"] for k, v in kinds.items()} == {
        "head": "vse-head", "gpu": "vse-worker", "gpu_spot": "vse-worker", "cpu": "vse-worker"}
    real = AWSNodeProvider.fillout_available_node_types_resources(
        {**ready, "available_node_types": {k: {**v, "resources": {}} for k, v in kinds.items()}})
    for name, kind in stated.items():  # what the file states is what the machines have
        have = real["available_node_types"][name]["resources"]
        assert {key: have[key] for key in kind["resources"]} == kind["resources"], (name, have)
    provider = AWSNodeProvider(ready["provider"], ready["cluster_name"])
    for name, market in (("gpu", None), ("gpu_spot", "spot"), ("cpu", "spot")):
        provider.create_node(kinds[name]["node_config"], {"ray-node-kind": "worker", "ray-user-node-type": name}, 1)
    made = {t["Value"]: i for r in ec2.describe_instances()["Reservations"] for i in r["Instances"] for t in i["Tags"]
            if t["Key"] == "ray-user-node-type"}
    assert {name: i.get("InstanceLifecycle") for name, i in made.items()} == {
        "gpu": None, "gpu_spot": "spot", "cpu": "spot"}, made
    for instance in made.values():
        assert instance["IamInstanceProfile"]["Arn"].endswith("vse-worker"), instance
        told = {name: ec2.describe_instance_attribute(InstanceId=instance["InstanceId"], Attribute=name)
                for name in ("instanceInitiatedShutdownBehavior", "userData")}
        assert told["instanceInitiatedShutdownBehavior"]["InstanceInitiatedShutdownBehavior"]["Value"] == "terminate"
        assert b"shutdown -h now" in base64.b64decode(told["userData"]["UserData"]["Value"])
        ids = [group["GroupId"] for group in instance["SecurityGroups"]]
        (group,) = ec2.describe_security_groups(GroupIds=ids)["SecurityGroups"]
        assert group["GroupName"] == "vse"
        ranges = {r["CidrIp"] for rule in group["IpPermissions"] for r in rule["IpRanges"]}
        assert ranges == ({"198.51.100.7/32"} if prepared else {"0.0.0.0/0"}), group
    assert len(ec2.describe_volumes()["Volumes"]) == len(made)
    provider.terminate_nodes([instance["InstanceId"] for instance in made.values()])
    assert ec2.describe_volumes()["Volumes"] == []  # none goes on costing
    from vse.preflight.aws import check_account
    checks = check_account(yaml.safe_load(open("cluster.yaml")))
    (state,) = [c.state for c in checks if c.what == "security group"]
    assert state == ("ok" if prepared else "problem"), checks
print("bootstrapped")
"""


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("prepared", ["prepared", "unprepared"])
def test_aws_gets_what_was_meant(tmp_path: Path, prepared: str) -> None:
    """Without a security group of ours Ray opens port 22 to the world, which the preflight then calls a problem."""
    done = in_a_process(
        BOOTSTRAP,
        prepared,
        AWS_ACCESS_KEY_ID="x",
        AWS_SECRET_ACCESS_KEY="x",
        AWS_DEFAULT_REGION="us-west-2",
        HOME=str(tmp_path),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "bootstrapped" in done.stdout


def test_policies_give_the_bucket_and_no_more(config: dict[str, Any]) -> None:
    policies = config["metadata"]["policies"]
    bucket = "arn:aws:s3:::vse-${aws:PrincipalAccount}-us-west-2"
    for statement in policies["storage"]["Statement"]:
        assert statement["Effect"] == "Allow"
        assert all(action.startswith("s3:") and "*" not in action for action in statement["Action"])
        assert statement["Resource"] in (bucket, f"{bucket}/*")
        assert statement["Condition"] == {"StringEquals": {"aws:ResourceAccount": "${aws:PrincipalAccount}"}}
    anywhere = [statement for statement in policies["instances"]["Statement"] if statement["Resource"] == "*"]
    assert len(anywhere) == 1  # EC2 knows no narrower way to describe, nor to run what is yet without a name
    assert all(action.startswith("ec2:Describe") or action == "ec2:RunInstances" for action in anywhere[0]["Action"])
    passed = [s["Resource"] for s in policies["instances"]["Statement"] if s["Action"] == "iam:PassRole"]
    assert passed == ["arn:aws:iam::*:role/vse-worker"]
