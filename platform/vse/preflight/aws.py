"""Checks of a cluster file against an AWS account: images, instance types, quotas, profiles, policies, the role
for spot instances, security group, bucket.

Nothing is created or changed. If credentials are missing or lack a permission, a check says so instead of guessing.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from vse.preflight.checks import Check
from vse.preflight.cluster_file import part

# Service Quotas of EC2, in vCPUs: first letters of an instance type -> (on demand, spot)
QUOTAS = {
    "g": ("L-DB2E81BA", "L-3819A6DF"),
    "vt": ("L-DB2E81BA", "L-3819A6DF"),
    "p5": ("L-417A185B", "L-C4BD4855"),
    "p": ("L-417A185B", "L-7212CCBC"),
    "": ("L-1216C47A", "L-34B43A08"),
}
_BUCKET = re.compile(r"\bVSE_BUCKET=([\w.$-]+)")
_IMAGE = "resolve:ssm:"
_SPOT_ROLE = "AWSServiceRoleForEC2Spot"
_ABSENT = {"NoSuchEntity", "InvalidAMIID.NotFound", "InvalidAMIID.Malformed", "ParameterNotFound"}


def check_account(config: Mapping[str, Any], session: Any = None) -> list[Check]:
    """All checks of a file whose provider is aws, in which schema and lint have no problem.

    `session` is a boto3.Session, by default of the standard chain.
    """
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    region = config["provider"]["region"]
    where = f"AWS {region}"
    session = session or boto3.Session()
    try:
        has_credentials = session.get_credentials() is not None
    except BotoCoreError:
        has_credentials = False
    if not has_credentials:
        unchecked = "images, instance types, quotas, profiles, policies, spot role, security group and bucket"
        return [Check("account", where, "not checked", f"no credentials (aws configure): {unchecked} are unknown")]
    account = _Account(config, session, region, where)
    checks: list[Check] = []
    for what, check in (
        ("account", account.identity),
        ("image", account.images),
        ("instance type", account.offers),
        ("quota", account.quotas),
        ("profile", account.profiles),
        ("policy", account.policies),
        ("spot role", account.spot_role),
        ("security group", account.group),
        ("bucket", account.bucket),
    ):
        try:
            checks.extend(check())  # keeps the checks before a question that the account does not answer
        except (ClientError, BotoCoreError) as error:
            checks.append(_refused(what, where, error))
    return checks


def _refused(what: str, where: str, error: Exception, name: str = "") -> Check:
    code = getattr(error, "response", {}).get("Error", {}).get("Code", "")
    detail = f"{name}: {' '.join(str(error).split())}" if name else " ".join(str(error).split())
    return Check(what, where, "problem" if code in _ABSENT else "not checked", detail)


class _Account:
    def __init__(self, config: Mapping[str, Any], session: Any, region: str, where: str) -> None:
        self.config, self.session, self.region, self.where = config, session, region, where
        self.node_types: dict[str, Mapping[str, Any]] = dict(config["available_node_types"])
        self.zones = [
            zone for zone in config["provider"].get("availability_zone", "").replace(" ", "").split(",") if zone
        ]

    def client(self, service: str) -> Any:
        return self.session.client(service, region_name=self.region)

    def check(self, what: str, passed: bool, detail: str, problem: str) -> Check:
        return Check.of(what, self.where, passed, detail, problem)

    def each(self, what: str, names: Iterable[str], check: Callable[[str], Check]) -> Iterator[Check]:
        """A check for every name, also after one that the account does not answer."""
        from botocore.exceptions import ClientError

        for name in sorted(names):
            try:
                yield check(name)
            except ClientError as error:
                yield _refused(what, self.where, error, name)

    def identity(self) -> Iterator[Check]:
        caller = self.client("sts").get_caller_identity()
        yield Check("account", self.where, "ok", f"{caller['Account']}, as {caller['Arn'].rsplit(':', 1)[-1]}")

    def images(self) -> Iterator[Check]:
        disks: dict[str, list[list[Mapping[str, Any]]]] = defaultdict(list)
        for node_type in self.node_types.values():
            node = node_type["node_config"]
            disks[str(node["ImageId"])].append(node.get("BlockDeviceMappings", []))

        def check(image: str) -> Check:
            image_id = label = image
            if image.startswith(_IMAGE):
                name = image.removeprefix(_IMAGE)
                image_id = self.client("ssm").get_parameter(Name=name)["Parameter"]["Value"]
                label = f"{image_id} ({name})"
            described = self.client("ec2").describe_images(ImageIds=[image_id])["Images"]
            if not described:
                return Check("image", self.where, "problem", f"{label}: no such image for this account")
            problem = next(filter(None, (_root_volume_problem(described[0], each) for each in disks[image])), "")
            return self.check("image", not problem, label, f"{label}: {problem}")

        yield from self.each("image", disks, check)

    def offers(self) -> Iterator[Check]:
        names = sorted({str(node_type["node_config"]["InstanceType"]) for node_type in self.node_types.values()})
        pages = self.client("ec2").get_paginator("describe_instance_type_offerings")
        offered: dict[str, set[str]] = defaultdict(set)
        for page in pages.paginate(
            LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": names}]
        ):
            for offer in page["InstanceTypeOfferings"]:
                offered[offer["InstanceType"]].add(offer["Location"])
        for name in names:
            usable = sorted(zone for zone in offered[name] if not self.zones or zone in self.zones)
            yield self.check(
                "instance type",
                bool(usable),
                f"{name} in {', '.join(usable)}",
                f"{name} is in none of provider.availability_zone, but in {', '.join(sorted(offered[name])) or 'none'}",
            )

    def quotas(self) -> Iterator[Check]:
        ec2, service_quotas = self.client("ec2"), self.client("service-quotas")
        names = sorted({str(node_type["node_config"]["InstanceType"]) for node_type in self.node_types.values()})
        described = ec2.describe_instance_types(InstanceTypes=names)["InstanceTypes"]
        cores = {each["InstanceType"]: each["VCpuInfo"]["DefaultVCpus"] for each in described}
        needed: dict[str, int] = defaultdict(int)
        for name, node_type in self.node_types.items():
            count = 1 if name == self.config["head_node_type"] else int(node_type.get("max_workers") or 0)
            needed[_quota_code(node_type)] += count * cores[node_type["node_config"]["InstanceType"]]

        def check(code: str) -> Check:
            quota = service_quotas.get_service_quota(ServiceCode="ec2", QuotaCode=code)["Quota"]
            text = f"{quota['Value']:g} vCPUs of {quota['QuotaName']} ({code}); the file can take {needed[code]}"
            enough = quota["Value"] >= needed[code]
            return self.check("quota", enough, text, f"{text}: ask for more or lower max_workers")

        yield from self.each("quota", needed, check)

    def profiles(self) -> Iterator[Check]:
        def check(name: str) -> Check:
            return self.check("profile", bool(self._roles(name)), f"{name} has a role", f"{name} has no role")

        yield from self.each("profile", set(map(_profile, self.node_types.values())), check)

    def policies(self) -> Iterator[Check]:
        """Whether roles have the file's present policies; a head that may not end its workers lets them go on costing.

        A profile that does not exist is a problem of `profiles`.
        """
        iam = self.client("iam")
        written = part(part(self.config, "metadata"), "policies")
        head = _profile(self.node_types[self.config["head_node_type"]])
        for profile in sorted(set(map(_profile, self.node_types.values()))):
            try:
                roles = self._roles(profile)
            except iam.exceptions.NoSuchEntityException:
                continue
            for role in roles:
                for policy in [name for name in written if profile == head or name == "storage"]:
                    yield self._policy(str(role["RoleName"]), policy, written[policy])

    def _roles(self, profile: str) -> list[Mapping[str, Any]]:
        return self.client("iam").get_instance_profile(InstanceProfileName=profile)["InstanceProfile"]["Roles"]

    def _policy(self, role: str, policy: str, written: Any) -> Check:
        iam = self.client("iam")
        try:
            document = iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
        except iam.exceptions.NoSuchEntityException:
            return Check("policy", self.where, "not checked", f"{role} has no inline policy {policy} to compare with")
        problem = f"{policy} of {role} is not the one under metadata in the file: put it again"
        return self.check("policy", document == written, f"{policy} of {role} equals the file's", problem)

    def spot_role(self) -> Iterator[Check]:
        """Only accounts with this role, which is created once, get spot instances."""

        def check(name: str) -> Check:
            self.client("iam").get_role(RoleName=name)
            return Check("spot role", self.where, "ok", name)

        yield from self.each("spot role", {_SPOT_ROLE} if any(map(_is_spot, self.node_types.values())) else (), check)

    def group(self) -> Iterator[Check]:
        """The security groups that node types name by id, and the one that all other node types get."""
        describe = self.client("ec2").describe_security_groups
        ids_by_type = [node_type["node_config"].get("SecurityGroupIds") or [] for node_type in self.node_types.values()]
        groups = []
        if ids := sorted({str(each) for several in ids_by_type for each in several}):
            groups += describe(GroupIds=ids)["SecurityGroups"]
        if not all(ids_by_type):
            name = self.config["provider"].get("security_group", {}).get("GroupName", "")
            named = describe(Filters=[{"Name": "group-name", "Values": [name]}])["SecurityGroups"]
            network = self._network({group["VpcId"] for group in groups})
            usable = [group for group in named if group["VpcId"] == network]
            groups += usable
            if not network:
                problem = "no public subnet in provider.availability_zone, so Ray cannot place nodes"
                yield Check("security group", self.where, "problem", problem)
            elif not usable:
                lacks = f"is not in {network}, where Ray would put the nodes" if named else "does not exist"
                problem = f"{name or 'none named'}: {lacks}, so Ray would make one with port 22 open to the world"
                yield Check("security group", self.where, "problem", problem)
        for group in groups:
            name = group["GroupName"]
            ports = open_to_the_world(group["IpPermissions"])
            problem = f"{name}: open to the world on {', '.join(ports)}; name your own addresses"
            if not group["IpPermissions"] and group["GroupId"] not in ids:
                ports, problem = ["22"], f"{name}: has no rules, so Ray would open port 22 to the world"
            yield self.check("security group", not ports, f"{name}: nothing is open to the world", problem)

    def _network(self, networks: set[str]) -> str:
        """The VPC in which Ray looks for the named group, or an empty string.

        It is the VPC of the first subnet that Ray would use, in the order of the zones, and one of `networks` if there
        are any.
        """
        provider = self.config["provider"]
        node_types = self.node_types.values()
        named = sorted({str(each) for kind in node_types for each in kind["node_config"].get("SubnetIds", ())})
        pages = self.client("ec2").get_paginator("describe_subnets").paginate(**({"SubnetIds": named} if named else {}))
        usable = [
            subnet
            for page in pages
            for subnet in page["Subnets"]
            if subnet["State"] == "available"
            and (subnet["MapPublicIpOnLaunch"] or provider.get("use_internal_ips"))
            and (not networks or subnet["VpcId"] in networks)
        ]
        usable.sort(key=lambda subnet: subnet["AvailabilityZone"], reverse=True)
        if self.zones:
            usable = [subnet for zone in self.zones for subnet in usable if subnet["AvailabilityZone"] == zone]
        return usable[0]["VpcId"] if usable else ""

    def bucket(self) -> Iterator[Check]:
        """The bucket that the file's own commands name."""
        from botocore.exceptions import ClientError

        account = self.client("sts").get_caller_identity()["Account"]
        match = _BUCKET.search(" ".join(map(str, self.config.get("setup_commands", ()))))
        name = match[1] if match else "vse-$ACCOUNT-$REGION"
        name = name.replace("$ACCOUNT", account).replace("$REGION", self.region)
        s3 = self.client("s3")
        try:
            s3.head_bucket(Bucket=name, ExpectedBucketOwner=account)
            yield Check("bucket", self.where, "ok", f"{name} answers")
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code in ("404", "NoSuchBucket"):
                yield Check("bucket", self.where, "ok", f"{name} does not exist; the head creates it")
            elif code == "403" and name not in {each["Name"] for each in s3.list_buckets()["Buckets"]}:
                text = f"{name}: another account has a bucket of that name; name another one in the cluster file"
                yield Check("bucket", self.where, "problem", text)
            else:
                raise


def _root_volume_problem(image: Mapping[str, Any], disks: Iterable[Mapping[str, Any]]) -> str:
    """Why the disks that a node type asks for do not fit its image; empty if they fit."""
    root = image.get("RootDeviceName", "")
    sizes = {disk.get("DeviceName"): disk.get("Ebs", {}).get("VolumeSize", 0) for disk in disks}
    if root not in sizes:
        return f"its root volume is {root}, which BlockDeviceMappings do not name, so it would stay small"
    least = max((d["Ebs"]["VolumeSize"] for d in image["BlockDeviceMappings"] if d["DeviceName"] == root), default=0)
    if sizes[root] < least:
        return f"its root volume needs {least} GiB, and VolumeSize is {sizes[root]}, so EC2 would start no node"
    return ""


def open_to_the_world(permissions: list[Mapping[str, Any]]) -> list[str]:
    """Ports of a security group's inbound rules that every address may reach."""
    ports = []
    for rule in permissions:
        ranges = {each.get("CidrIp") for each in rule.get("IpRanges", [])}
        ranges |= {each.get("CidrIpv6") for each in rule.get("Ipv6Ranges", [])}
        if {"0.0.0.0/0", "::/0"} & ranges:
            ports.append("all ports" if rule.get("FromPort") in (None, -1) else f"{rule['FromPort']}-{rule['ToPort']}")
    return ports


def _profile(node_type: Mapping[str, Any]) -> str:
    profile = node_type["node_config"]["IamInstanceProfile"]
    return str(profile.get("Name") or profile["Arn"].rpartition("/")[2])


def _quota_code(node_type: Mapping[str, Any]) -> str:
    instance_type = str(node_type["node_config"]["InstanceType"])
    family = next(family for family in QUOTAS if instance_type.startswith(family))
    return QUOTAS[family][_is_spot(node_type)]


def _is_spot(node_type: Mapping[str, Any]) -> bool:
    return (node_type["node_config"].get("InstanceMarketOptions") or {}).get("MarketType") == "spot"
