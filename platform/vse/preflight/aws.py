"""Checks of a cluster file against an AWS account: images, instance types, quotas, profiles, policies, the role
for spot instances, security group, bucket.

Nothing is made or changed. Where credentials are missing or lack a permission, a check says so instead of guessing.
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
_IMAGE = "resolve:ssm:"
_SPOT_ROLE = "AWSServiceRoleForEC2Spot"
_ABSENT = {"NoSuchEntity", "InvalidAMIID.NotFound", "InvalidAMIID.Malformed", "ParameterNotFound"}


def check_account(config: Mapping[str, Any], session: Any = None) -> list[Check]:
    """All checks of a file whose provider is aws, in which schema and lint found nothing wrong; `session` is a
    boto3.Session, by default of the standard chain."""
    import boto3
    from botocore.exceptions import BotoCoreError

    region = config["provider"]["region"]
    where = f"AWS {region}"
    session = session or boto3.Session()
    try:
        known = session.get_credentials() is not None
    except BotoCoreError:
        known = False
    if not known:
        wanted = "images, instance types, quotas, profiles, policies, spot role, security group and bucket"
        return [Check("account", where, "not checked", f"no credentials (aws configure): {wanted} are unknown")]
    account = _Account(config, session, region, where)
    checks: list[Check] = []
    for what, look in (
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
        checks += _asked(what, where, look)
    return checks


def _asked(what: str, where: str, look: Callable[[], Iterator[Check]]) -> list[Check]:
    """The checks of one kind, up to the question that the account does not answer."""
    from botocore.exceptions import BotoCoreError, ClientError

    found: list[Check] = []
    try:
        for check in look():
            found.append(check)
    except (ClientError, BotoCoreError) as error:
        found.append(_refused(what, where, error))
    return found


def _refused(what: str, where: str, error: Exception) -> Check:
    code = getattr(error, "response", {}).get("Error", {}).get("Code", "")
    return Check(what, where, "problem" if code in _ABSENT else "not checked", " ".join(str(error).split()))


class _Account:
    def __init__(self, config: Mapping[str, Any], session: Any, region: str, where: str) -> None:
        self.config, self.session, self.region, self.where = config, session, region, where
        self.kinds: dict[str, Mapping[str, Any]] = dict(config["available_node_types"])

    def client(self, service: str) -> Any:
        return self.session.client(service, region_name=self.region)

    def check(self, what: str, good: bool, fine: str, wrong: str) -> Check:
        return Check(what, self.where, "ok" if good else "problem", fine if good else wrong)

    def each(self, what: str, names: Iterable[str], look: Callable[[str], Check]) -> Iterator[Check]:
        """A check for every name; one that cannot be answered keeps no other from being made."""
        from botocore.exceptions import ClientError

        for name in sorted(names):
            try:
                yield look(name)
            except ClientError as error:
                refused = _refused(what, self.where, error)
                yield Check(what, self.where, refused.state, f"{name}: {refused.detail}")

    def identity(self) -> Iterator[Check]:
        told = self.client("sts").get_caller_identity()
        yield Check("account", self.where, "ok", f"{told['Account']}, as {told['Arn'].rsplit(':', 1)[-1]}")

    def images(self) -> Iterator[Check]:
        disks: dict[str, list[list[Mapping[str, Any]]]] = defaultdict(list)
        for kind in self.kinds.values():
            disks[str(kind["node_config"]["ImageId"])].append(kind["node_config"].get("BlockDeviceMappings", []))

        def look(image: str) -> Check:
            known = image
            if image.startswith(_IMAGE):
                name = image.removeprefix(_IMAGE)
                known = self.client("ssm").get_parameter(Name=name)["Parameter"]["Value"]
                told = f"{known} ({name})"
            else:
                told = image
            found = self.client("ec2").describe_images(ImageIds=[known])["Images"]
            if not found:
                return Check("image", self.where, "problem", f"{told}: no such image for this account")
            wrong = next(filter(None, (_unlike(found[0], each) for each in disks[image])), "")
            return self.check("image", not wrong, told, f"{told}: {wrong}")

        yield from self.each("image", disks, look)

    def offers(self) -> Iterator[Check]:
        zones = self._zones()
        wanted = {str(kind["node_config"]["InstanceType"]) for kind in self.kinds.values()}
        pages = self.client("ec2").get_paginator("describe_instance_type_offerings")
        offered: dict[str, set[str]] = defaultdict(set)
        for page in pages.paginate(
            LocationType="availability-zone", Filters=[{"Name": "instance-type", "Values": sorted(wanted)}]
        ):
            for offer in page["InstanceTypeOfferings"]:
                offered[offer["InstanceType"]].add(offer["Location"])
        for kind in sorted(wanted):
            where = sorted(zone for zone in offered[kind] if not zones or zone in zones)
            yield self.check(
                "instance type",
                bool(where),
                f"{kind} in {', '.join(where)}",
                f"{kind} is in none of provider.availability_zone, but in {', '.join(sorted(offered[kind])) or 'none'}",
            )

    def quotas(self) -> Iterator[Check]:
        ec2, asked = self.client("ec2"), self.client("service-quotas")
        types = sorted({str(kind["node_config"]["InstanceType"]) for kind in self.kinds.values()})
        described = ec2.describe_instance_types(InstanceTypes=types)["InstanceTypes"]
        cores = {each["InstanceType"]: each["VCpuInfo"]["DefaultVCpus"] for each in described}
        need: dict[str, int] = defaultdict(int)
        for name, kind in self.kinds.items():
            count = 1 if name == self.config["head_node_type"] else int(kind.get("max_workers") or 0)
            need[_quota(kind["node_config"])] += count * cores[kind["node_config"]["InstanceType"]]

        def look(code: str) -> Check:
            quota = asked.get_service_quota(ServiceCode="ec2", QuotaCode=code)["Quota"]
            told = f"{quota['Value']:g} vCPUs of {quota['QuotaName']} ({code}); the file can take {need[code]}"
            return self.check("quota", quota["Value"] >= need[code], told, f"{told}: ask for more or lower max_workers")

        yield from self.each("quota", need, look)

    def profiles(self) -> Iterator[Check]:
        iam = self.client("iam")

        def look(name: str) -> Check:
            roles = iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]["Roles"]
            return self.check("profile", bool(roles), f"{name} has a role", f"{name} has no role")

        yield from self.each("profile", {_profile(kind) for kind in self.kinds.values()}, look)

    def policies(self) -> Iterator[Check]:
        """Whether roles hold what the file says now; a head that may not end its workers lets them go on costing."""
        iam = self.client("iam")
        written = part(part(self.config, "metadata"), "policies")
        head = _profile(self.kinds[self.config["head_node_type"]])
        for profile in sorted({_profile(kind) for kind in self.kinds.values()}):
            try:
                roles = iam.get_instance_profile(InstanceProfileName=profile)["InstanceProfile"]["Roles"]
            except iam.exceptions.NoSuchEntityException:
                continue  # said of the profile
            for role in [str(each["RoleName"]) for each in roles]:
                for policy in [name for name in written if profile == head or name == "storage"]:
                    yield self._policy(role, policy, written[policy])

    def _policy(self, role: str, policy: str, written: Any) -> Check:
        iam = self.client("iam")
        try:
            held = iam.get_role_policy(RoleName=role, PolicyName=policy)["PolicyDocument"]
        except iam.exceptions.NoSuchEntityException:
            return Check("policy", self.where, "not checked", f"{role} has no inline policy {policy} to compare with")
        wrong = f"{policy} of {role} is not the one under metadata in the file: put it anew"
        return self.check("policy", held == written, f"{policy} of {role} is that of the file", wrong)

    def spot_role(self) -> Iterator[Check]:
        """Spot instances come only to accounts with this role, which is made once."""

        def look(name: str) -> Check:
            self.client("iam").get_role(RoleName=name)
            return Check("spot role", self.where, "ok", name)

        yield from self.each("spot role", {_SPOT_ROLE} if any(map(_is_spot, self.kinds.values())) else (), look)

    def group(self) -> Iterator[Check]:
        """Those that node types name by id, and the one that all others get."""
        describe = self.client("ec2").describe_security_groups
        given = [kind["node_config"].get("SecurityGroupIds") or [] for kind in self.kinds.values()]
        groups = []
        if ids := sorted({str(each) for several in given for each in several}):
            groups += describe(GroupIds=ids)["SecurityGroups"]
        if not all(given):
            name = self.config["provider"].get("security_group", {}).get("GroupName", "")
            named = describe(Filters=[{"Name": "group-name", "Values": [name]}])["SecurityGroups"]
            network = self._network({group["VpcId"] for group in groups})
            here = [group for group in named if group["VpcId"] == network]
            groups += here
            if not network:
                wrong = "no public subnet in provider.availability_zone, so Ray has no place for nodes"
                yield Check("security group", self.where, "problem", wrong)
            elif not here:
                lacks = f"is not in {network}, where Ray would put the nodes" if named else "does not exist"
                wrong = f"{name or 'none named'}: {lacks}, so Ray would make one with port 22 open to the world"
                yield Check("security group", self.where, "problem", wrong)
        for group in groups:
            name = group["GroupName"]
            wide = open_to_the_world(group["IpPermissions"])
            wrong = f"{name}: open to the world on {', '.join(wide)}; name your own addresses"
            if not group["IpPermissions"] and group["GroupId"] not in ids:
                wide, wrong = ["22"], f"{name}: has no rules, so Ray would open port 22 to the world"
            yield self.check("security group", not wide, f"{name}: nothing is open to the world", wrong)

    def _zones(self) -> list[str]:
        """Those of provider.availability_zone, in its order; none if any will do."""
        listed = self.config["provider"].get("availability_zone", "").replace(" ", "")
        return listed.split(",") if listed else []

    def _network(self, known: set[str]) -> str:
        """The VPC in which Ray looks for the named group: that of the first subnet that it would use, in the order of
        the zones, of one of the `known` VPCs if there are such. Empty if it would use none."""
        provider = self.config["provider"]
        zones = self._zones()
        named = sorted({str(each) for kind in self.kinds.values() for each in kind["node_config"].get("SubnetIds", ())})
        pages = self.client("ec2").get_paginator("describe_subnets").paginate(**({"SubnetIds": named} if named else {}))
        usable = [
            subnet
            for page in pages
            for subnet in page["Subnets"]
            if subnet["State"] == "available"
            and (subnet["MapPublicIpOnLaunch"] or provider.get("use_internal_ips"))
            and (not known or subnet["VpcId"] in known)
        ]
        usable.sort(key=lambda subnet: subnet["AvailabilityZone"], reverse=True)
        if zones:
            usable = [subnet for zone in zones for subnet in usable if subnet["AvailabilityZone"] == zone]
        return usable[0]["VpcId"] if usable else ""

    def _bucket_name(self, account: str) -> str:
        """As the file's own commands name it."""
        commands = " ".join(map(str, self.config.get("setup_commands", ())))
        found = _BUCKET.search(commands)
        name = found[1] if found else "vse-$ACCOUNT-$REGION"
        return name.replace("$ACCOUNT", account).replace("$REGION", self.region)

    def bucket(self) -> Iterator[Check]:
        from botocore.exceptions import ClientError

        account = self.client("sts").get_caller_identity()["Account"]
        name = self._bucket_name(account)
        s3 = self.client("s3")
        try:
            s3.head_bucket(Bucket=name, ExpectedBucketOwner=account)
            yield Check("bucket", self.where, "ok", f"{name} answers")
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code in ("404", "NoSuchBucket"):
                yield Check("bucket", self.where, "ok", f"{name} is not there; the head makes it")
            elif code == "403" and name not in {each["Name"] for each in s3.list_buckets()["Buckets"]}:
                wrong = f"{name}: another account has a bucket of that name; give yours another one in the cluster file"
                yield Check("bucket", self.where, "problem", wrong)
            else:
                raise


def _unlike(image: Mapping[str, Any], disks: Iterable[Mapping[str, Any]]) -> str:
    """What EC2 would make of a node's disks that its image is not made for; empty if they fit."""
    root = image.get("RootDeviceName", "")
    given = {disk.get("DeviceName"): disk.get("Ebs", {}).get("VolumeSize", 0) for disk in disks}
    if root not in given:
        return f"its root volume is {root}, which BlockDeviceMappings do not name, so that it would stay small"
    least = max((d["Ebs"]["VolumeSize"] for d in image["BlockDeviceMappings"] if d["DeviceName"] == root), default=0)
    if given[root] < least:
        return f"its root volume needs {least} GiB, and VolumeSize is {given[root]}, so EC2 would start no node"
    return ""


_BUCKET = re.compile(r"\bVSE_BUCKET=([\w.$-]+)")


def open_to_the_world(permissions: list[Mapping[str, Any]]) -> list[str]:
    """Ports of a security group's inbound rules that every address may reach."""
    wide = []
    for rule in permissions:
        ranges = [r.get("CidrIp") for r in rule.get("IpRanges", [])] + [
            r.get("CidrIpv6") for r in rule.get("Ipv6Ranges", [])
        ]
        if {"0.0.0.0/0", "::/0"} & set(ranges):
            wide.append("all ports" if rule.get("FromPort") in (None, -1) else f"{rule['FromPort']}-{rule['ToPort']}")
    return wide


def _profile(kind: Mapping[str, Any]) -> str:
    given = kind["node_config"]["IamInstanceProfile"]
    return str(given.get("Name") or given["Arn"].rpartition("/")[2])


def _quota(node: Mapping[str, Any]) -> str:
    kind = str(node["InstanceType"])
    family = next(family for family in QUOTAS if kind.startswith(family))
    return QUOTAS[family][_is_spot({"node_config": node})]


def _is_spot(kind: Mapping[str, Any]) -> bool:
    return (kind["node_config"].get("InstanceMarketOptions") or {}).get("MarketType") == "spot"
