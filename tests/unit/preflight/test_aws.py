"""What an account answers, against a simulated AWS, which has no quotas of EC2: those are stood in for."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from botocore.exceptions import ClientError
from moto import mock_aws
from ray.autoscaler._private.aws.config import _usable_subnet_ids

from vse.preflight.aws import QUOTAS, _Account, check_account, open_to_the_world
from vse.preflight.checks import Check

pytestmark = pytest.mark.seconds

FILE = Path(__file__).resolve().parents[3] / "cluster.yaml"
REGION = "us-west-2"


@pytest.fixture
def config() -> dict[str, Any]:
    return yaml.safe_load(FILE.read_text())


@pytest.fixture
def cloud(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    with mock_aws():
        yield


def states(checks: list[Check], what: str) -> list[tuple[str, str]]:
    return [(check.state, check.detail) for check in checks if check.what == what]


def test_without_credentials_nothing_is_guessed(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    (check,) = check_account(config)
    assert (check.state, check.where) == ("not checked", "AWS us-west-2")
    assert check.detail.startswith("no credentials")


@pytest.mark.usefixtures("cloud")
def test_an_account_that_has_nothing(config: dict[str, Any]) -> None:
    checks = check_account(config)
    assert states(checks, "account")[0][0] == "ok"
    profiles = states(checks, "profile")
    assert [state for state, _ in profiles] == ["problem"] * 2
    assert [detail.split(":")[0] for _, detail in profiles] == ["vse-head", "vse-worker"]
    ((state, detail),) = states(checks, "spot role")
    assert state == "problem"
    assert detail.startswith("AWSServiceRoleForEC2Spot: ")
    ((state, detail),) = states(checks, "security group")
    assert state == "problem"
    assert "does not exist" in detail
    ((state, detail),) = states(checks, "bucket")
    assert (state, detail) == ("ok", "vse-123456789012-us-west-2 does not exist; the head creates it")
    assert [state for state, _ in states(checks, "instance type")] == ["ok"] * 3


@pytest.mark.usefixtures("cloud")
def test_a_type_that_no_zone_offers(config: dict[str, Any]) -> None:
    config["available_node_types"]["gpu"]["node_config"]["InstanceType"] = "g99.2xlarge"
    wrong = [detail for state, detail in states(check_account(config), "instance type") if state == "problem"]
    assert wrong == ["g99.2xlarge is in none of provider.availability_zone, but in none"]


@pytest.mark.slow
@pytest.mark.usefixtures("cloud")
def test_an_image_that_is_gone_is_a_problem_and_hides_no_other(config: dict[str, Any]) -> None:
    there = boto3.client("ec2", region_name=REGION).describe_images()["Images"][0]["ImageId"]
    gone = "resolve:ssm:/no/such/parameter"
    kinds = config["available_node_types"].values()
    for kind, image in zip(kinds, ("ami-00", there, gone, gone), strict=True):
        kind["node_config"]["ImageId"] = image
    found = {detail.split(": ")[0]: state for state, detail in states(check_account(config), "image")}
    assert found == {"ami-00": "problem", there: "ok", gone: "problem"}


@pytest.mark.usefixtures("cloud")
@pytest.mark.parametrize(
    ("device", "size", "state", "told"),
    [
        ("/dev/xvda", 120, "problem", "its root volume is /dev/sda1, which BlockDeviceMappings do not name"),
        pytest.param("/dev/sda1", 15, "ok", "", marks=pytest.mark.slow),
        pytest.param(
            *("/dev/sda1", 14, "problem"),
            "its root volume needs 15 GiB, and VolumeSize is 14, so EC2 would start no node",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_disks_are_those_of_the_image(config: dict[str, Any], device: str, size: int, state: str, told: str) -> None:
    """Of a volume under another name than the root's, EC2 makes a second one; Ray and the package go to the root."""
    image = boto3.client("ec2", region_name=REGION).describe_images()["Images"][0]["ImageId"]
    data = {"DeviceName": "/dev/sdf", "Ebs": {"VolumeSize": 1}}  # one's own, beside it
    for kind in config["available_node_types"].values():
        disks = [data, {"DeviceName": device, "Ebs": {"VolumeSize": size}}]
        kind["node_config"].update(ImageId=image, BlockDeviceMappings=disks)
    ((found, detail),) = states(check_account(config), "image")
    assert found == state
    assert told in detail


@pytest.mark.usefixtures("cloud")
def test_a_right_that_is_missing_is_no_problem_and_hides_no_other(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    account = _Account(config, boto3.Session(), REGION, "here")
    denied = ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "GetInstanceProfile")

    class Profiles:
        def get_instance_profile(self, *, InstanceProfileName: str) -> dict[str, Any]:
            if InstanceProfileName == "vse-head":
                raise denied
            return {"InstanceProfile": {"Roles": [{}]}}

    monkeypatch.setattr(account, "client", lambda name: Profiles())
    assert [(check.state, check.detail.split()[0]) for check in account.profiles()] == [
        ("not checked", "vse-head:"),
        ("ok", "vse-worker"),
    ]


@pytest.mark.usefixtures("cloud")
@pytest.mark.slow
def test_spot_instances_need_their_role(config: dict[str, Any]) -> None:
    boto3.client("iam").create_role(RoleName="AWSServiceRoleForEC2Spot", AssumeRolePolicyDocument="{}")
    assert states(check_account(config), "spot role") == [("ok", "AWSServiceRoleForEC2Spot")]
    for kind in config["available_node_types"].values():
        kind["node_config"].pop("InstanceMarketOptions", None)
    assert states(check_account(config), "spot role") == []


@pytest.mark.usefixtures("cloud")
@pytest.mark.slow
def test_profiles_bucket_and_group_that_are_there(config: dict[str, Any]) -> None:
    iam, ec2 = boto3.client("iam"), boto3.client("ec2", region_name=REGION)
    for name in ("vse-head", "vse-worker"):
        iam.create_instance_profile(InstanceProfileName=name)
        if name == "vse-head":
            iam.create_role(RoleName=name, AssumeRolePolicyDocument="{}")
            iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
    boto3.client("s3", region_name=REGION).create_bucket(
        Bucket="vse-123456789012-us-west-2", CreateBucketConfiguration={"LocationConstraint": REGION}
    )
    ec2.create_security_group(GroupName="vse", Description="x", VpcId=ec2.describe_vpcs()["Vpcs"][0]["VpcId"])
    checks = check_account(config)
    assert states(checks, "profile") == [("ok", "vse-head has a role"), ("problem", "vse-worker has no role")]
    assert states(checks, "bucket") == [("ok", "vse-123456789012-us-west-2 answers")]
    assert states(checks, "security group")[0] == (
        "problem",
        "vse: has no rules, so Ray would open port 22 to the world",
    )


@pytest.mark.usefixtures("cloud")
def test_policies_are_those_of_the_file(config: dict[str, Any]) -> None:
    """A cluster that was renamed in the file alone has a head that may not end its workers."""
    iam = boto3.client("iam")
    for name in ("vse-head", "vse-worker"):
        iam.create_instance_profile(InstanceProfileName=name)
        iam.create_role(RoleName=name, AssumeRolePolicyDocument="{}")
        iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
    assert [state for state, _ in states(check_account(config), "policy")] == ["not checked"] * 3
    policies = config["metadata"]["policies"]
    for role, policy in (("vse-head", "storage"), ("vse-head", "instances"), ("vse-worker", "storage")):
        iam.put_role_policy(RoleName=role, PolicyName=policy, PolicyDocument=json.dumps(policies[policy]))
    assert [state for state, _ in states(check_account(config), "policy")] == ["ok"] * 3
    (condition,) = [
        s["Condition"] for s in policies["instances"]["Statement"] if "ec2:TerminateInstances" in s["Action"]
    ]
    condition["StringEquals"]["aws:ResourceTag/ray-cluster-name"] = "vse-anna"
    wrong = [detail for state, detail in states(check_account(config), "policy") if state == "problem"]
    assert wrong == ["instances of vse-head is not the one under metadata in the file: put it again"]


@pytest.mark.usefixtures("cloud")
@pytest.mark.slow
def test_groups_that_node_types_name_by_id_are_the_ones_looked_at(config: dict[str, Any]) -> None:
    ec2 = boto3.client("ec2", region_name=REGION)
    vpc = ec2.describe_vpcs()["Vpcs"][0]["VpcId"]
    ids = [ec2.create_security_group(GroupName=n, Description="x", VpcId=vpc)["GroupId"] for n in ("closed", "open")]
    ec2.authorize_security_group_ingress(
        GroupId=ids[1],
        IpPermissions=[{"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}],
    )
    del config["provider"]["security_group"]
    for name, kind in config["available_node_types"].items():
        kind["node_config"]["SecurityGroupIds"] = [ids[name == "cpu"]]
    told = {text: state for state, text in states(check_account(config), "security group")}
    assert told == {
        "closed: nothing is open to the world": "ok",
        "open: open to the world on 22-22; name your own addresses": "problem",
    }


@pytest.mark.slow
@pytest.mark.usefixtures("cloud")
def test_a_group_of_another_network_is_not_the_one_that_ray_takes(config: dict[str, Any]) -> None:
    """Accounts may have several VPCs. Ray's own choice, of the same subnets, is compared with."""
    ec2 = boto3.client("ec2", region_name=REGION)
    (default,) = ec2.describe_vpcs()["Vpcs"]
    group = ec2.create_security_group(GroupName="vse", Description="x", VpcId=default["VpcId"])["GroupId"]
    ec2.authorize_security_group_ingress(
        GroupId=group, IpPermissions=[{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}]
    )
    assert states(check_account(config), "security group") == [("ok", "vse: nothing is open to the world")]

    other = ec2.create_vpc(CidrBlock="10.1.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=other, CidrBlock="10.1.0.0/20", AvailabilityZone=f"{REGION}a")["Subnet"][
        "SubnetId"
    ]
    ec2.modify_subnet_attribute(SubnetId=subnet, MapPublicIpOnLaunch={"Value": True})
    ours = [each for each in ec2.describe_subnets()["Subnets"] if each["VpcId"] == default["VpcId"]]
    for each in ours:
        public = {"Value": each["AvailabilityZone"] != f"{REGION}a"}
        ec2.modify_subnet_attribute(SubnetId=each["SubnetId"], MapPublicIpOnLaunch=public)
    told = (
        f"vse: is not in {other}, where Ray would put the nodes, so Ray would make one with port 22 open to the world"
    )
    assert states(check_account(config), "security group") == [("problem", told)]
    everything: Any = boto3.resource("ec2", region_name=REGION)
    subnets = list(everything.subnets.all())
    assert _usable_subnet_ids(None, subnets, config["provider"]["availability_zone"], None, False, "head")[1] == other

    config["provider"]["availability_zone"] = f"{REGION}z"
    ((state, detail),) = states(check_account(config), "security group")
    assert (state, detail.split(",")[0]) == ("problem", "no public subnet in provider.availability_zone")


@pytest.mark.slow
@pytest.mark.usefixtures("cloud")
def test_the_bucket_is_the_one_that_the_file_names(config: dict[str, Any]) -> None:
    commands = config["setup_commands"]
    config["setup_commands"] = [each.replace("VSE_BUCKET=vse-", "VSE_BUCKET=ours.of-") for each in commands]
    assert config["setup_commands"] != commands
    name = "ours.of-123456789012-us-west-2"
    assert states(check_account(config), "bucket") == [("ok", f"{name} does not exist; the head creates it")]
    boto3.client("s3", region_name=REGION).create_bucket(
        Bucket=name, CreateBucketConfiguration={"LocationConstraint": REGION}
    )
    assert states(check_account(config), "bucket") == [("ok", f"{name} answers")]


@pytest.mark.usefixtures("cloud")
def test_a_bucket_of_another_account_is_a_problem(config: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    account, name = _Account(config, boto3.Session(), REGION, "here"), "vse-123456789012-us-west-2"
    real, mine = account.client, list[dict[str, str]]()

    class Taken:
        def head_bucket(self, *, Bucket: str, ExpectedBucketOwner: str) -> None:
            assert (Bucket, ExpectedBucketOwner) == (name, "123456789012")
            raise ClientError({"Error": {"Code": "403", "Message": "Forbidden"}}, "HeadBucket")

        def list_buckets(self) -> dict[str, Any]:
            return {"Buckets": mine}

    monkeypatch.setattr(account, "client", lambda service: Taken() if service == "s3" else real(service))
    (check,) = account.bucket()
    assert (check.state, check.detail.split("; ")[0]) == (
        "problem",
        f"{name}: another account has a bucket of that name",
    )
    mine.append({"Name": name})  # then these credentials lack a right on it
    with pytest.raises(ClientError, match="Forbidden"):
        list(account.bucket())


class _Quotas:
    """Answers as Service Quotas does; `values` by code."""

    def __init__(self, values: dict[str, float]) -> None:
        self.values = values

    def get_service_quota(self, *, ServiceCode: str, QuotaCode: str) -> dict[str, Any]:
        assert ServiceCode == "ec2"
        return {"Quota": {"Value": self.values[QuotaCode], "QuotaName": f"quota {QuotaCode}"}}


@pytest.mark.usefixtures("cloud")
def test_quotas_are_held_against_the_most_the_file_can_take(
    config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    account = _Account(config, boto3.Session(), REGION, "here")
    real = account.client
    on_demand, spot = QUOTAS["g"]
    general, general_spot = QUOTAS[""]
    values = {on_demand: 32.0, spot: 63.0, general: 4.0, general_spot: 32.0}
    monkeypatch.setattr(account, "client", lambda name: _Quotas(values) if name == "service-quotas" else real(name))
    found = {check.detail.split("(")[1].split(")")[0]: check for check in account.quotas()}
    # 4 and 8 instances of 8 vCPUs; a head of 4; 2 spot instances of 16
    assert {code: check.state for code, check in found.items()} == {
        on_demand: "ok",
        spot: "problem",
        general: "ok",
        general_spot: "ok",
    }
    assert found[spot].detail.endswith("the file can take 64: ask for more or lower max_workers")


def test_what_is_open_to_the_world() -> None:
    own = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": "sg-1"}]}
    ssh = {"FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    home = {"FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "198.51.100.7/32"}]}
    every = {"IpProtocol": "-1", "Ipv6Ranges": [{"CidrIpv6": "::/0"}]}
    assert open_to_the_world([own, home]) == []
    assert open_to_the_world([own, ssh, every]) == ["22-22", "all ports"]
