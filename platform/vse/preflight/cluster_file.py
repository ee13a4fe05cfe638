"""A cluster file against Ray's schema, and against rules on cost, security and reachability. Needs no network."""

import contextlib
import copy
import io
import ipaddress
import json
import re
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from vse.cluster import ray_private
from vse.cluster.runtime import LIFECYCLE
from vse.errors import InputError, first_line
from vse.preflight.checks import Check
from vse.storage.files import local_path


def read_cluster_file(path: str) -> dict[str, Any]:
    """The file as written. Raises InputError if it cannot be read."""
    import yaml

    try:
        config = yaml.safe_load(local_path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"cluster={path}: {getattr(error, 'strerror', None) or error}") from None
    except yaml.YAMLError as error:
        raise InputError(f"cluster={path}: not YAML ({' '.join(str(error).split())})") from None
    if not isinstance(config, dict):
        raise InputError(f"cluster={path}: expected a mapping of settings, got {type(config).__name__}")
    return config


def check_cluster_file(config: Mapping[str, Any], path: str) -> list[Check]:
    """Schema, then lint; the files it mounts and its pins are looked for in its own folder."""
    root, ray_version = local_path(path).resolve().parent, metadata.version("ray")
    error = _schema_error(config)
    constraints = root / "constraints.txt"
    pins = constraints.read_text(encoding="utf-8") if constraints.exists() else ""
    lint = [Check("lint", path, "problem", text) for text in problems(config, root, ray_version, pins)]
    return [
        Check.of("schema of Ray", path, not error, f"Ray {ray_version}", error),
        *(lint or [Check("lint", path, "ok", "pins, images, profiles, addresses, mounts, limits")]),
    ]


def check_token(config: Mapping[str, Any]) -> list[Check]:
    """Whether the token that the file sends to the nodes is on this machine; `ray up` needs it."""
    checks = []
    for token in map(str, part(config, "file_mounts").values()):
        if token.endswith("auth_token"):
            file = local_path(token)
            passed = file.is_file() and file.stat().st_size > 0
            problem = f"{token}: missing or empty; `ray get-auth-token --generate` makes it"
            checks.append(Check.of("token", "this machine", passed, token, problem))
    return checks


def _schema_error(config: Mapping[str, Any]) -> str:
    """Ray's error message for the file, in one line; empty if the file is valid."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            ray_private.check_cluster_file(copy.deepcopy(dict(config)))
        except Exception as error:  # a schema error, or whatever a provider makes of nonsense
            return first_line(error)
    return ""


SECRET = re.compile(r"AKIA[0-9A-Z]{16}|aws_secret|hf_[A-Za-z0-9]{20}|-----BEGIN|password\s*[=:]", re.IGNORECASE)
_TOO_OLD = re.compile(r"^p[23]\.")  # V100 and K80: no kernels for them in torch built for CUDA 13
_REGION = re.compile(r"\b[a-z]{2}(?:-(?:gov|iso[a-z]?))?-(?:north|south|east|west|central)(?:east|west)?-\d")
_COMPARED = re.compile(r"[!=]= *'us-east-1'")  # the one region that S3 does not accept as a location
_LISTENS = re.compile(r"--(?:dashboard-)?host[= ](\S+)")
_DEFAULT_MAX_WORKERS = 2  # of Ray's schema
_MOUNT_LIMIT = 64 * 2**20
_START_COMMANDS = ("head_start_ray_commands", "worker_start_ray_commands")


def problems(config: Mapping[str, Any], root: Path, ray_version: str, constraints: str) -> Iterator[str]:
    """One line per problem of a cluster configuration as written, before Ray fills in defaults.

    Args:
        config: of the cluster file.
        root: the folder that mounts are relative to.
        ray_version: the release of Ray that nodes should install.
        constraints: content of `constraints.txt` in that folder.
    """
    provider = part(config, "provider")
    yield from _hosts(config, provider) if provider.get("type") == "local" else _cloud(config, provider)
    yield from _commands(config, ray_version, constraints)
    yield from _mounts(config, root)
    if not config.get("idle_timeout_minutes"):
        yield "idle_timeout_minutes: idle workers would never end"
    if SECRET.search(repr(config)):
        yield "a secret is written into the file"


def part(of: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """The mapping below a key; empty if there is none, or something else, which the schema reports."""
    value = of.get(key)
    return value if isinstance(value, Mapping) else {}


def _list(of: Mapping[str, Any], key: str) -> list[Any]:
    value = of.get(key)
    return value if isinstance(value, list) else []


def _commands_of(config: Mapping[str, Any], key: str) -> str:
    return "\n".join(command for command in _list(config, key) if isinstance(command, str))


def _all_commands(config: Mapping[str, Any]) -> str:
    return "\n".join(_commands_of(config, key) for key in sorted(map(str, config)) if key.endswith("_commands"))


def _cloud(config: Mapping[str, Any], provider: Mapping[str, Any]) -> Iterator[str]:
    head, types = config.get("head_node_type"), part(config, "available_node_types")
    if not isinstance(head, str) or head not in types:
        yield f"head_node_type: {head} is not one of available_node_types"
    for name in types:
        yield from _node_type(name, part(types, name), is_head=name == head)
    with_gpu = [kind for name in types if part(kind := part(types, name), "resources").get("GPU")]
    markets = [part(kind, "labels").get(LIFECYCLE) for kind in with_gpu]
    for market, why in (("on-demand", "Train ranks"), ("spot", "trials and extraction")):
        if market not in markets:
            yield f"available_node_types: no GPU type is labelled {LIFECYCLE}: {market}, for {why}"
    counts = [part(types, name).get("max_workers") for name in types]
    wanted = sum(count for count in counts if isinstance(count, int))
    most = config.get("max_workers", _DEFAULT_MAX_WORKERS)
    if isinstance(most, int) and wanted > most:
        yield f"max_workers: {most} for all node types together, though theirs add up to {wanted}; raise it too"
    if provider.get("cache_stopped_nodes", True):
        yield "provider.cache_stopped_nodes: stopped spot instances go on costing their disks"
    own_groups = [bool(_list(part(part(types, name), "node_config"), "SecurityGroupIds")) for name in types]
    if not part(provider, "security_group").get("GroupName") and not (own_groups and all(own_groups)):
        yield "provider.security_group: not named, so Ray would make one with port 22 open to the world"
    region = provider.get("region")
    if not region or not isinstance(region, str):
        yield "provider.region: missing"
    else:
        yield from _regions(config, region)
    yield from _tagged(config)
    yield from _owned(config)
    commands = _all_commands(config)
    if not re.search(r"AWS_METADATA_SERVICE_TIMEOUT=.*AWS_METADATA_SERVICE_NUM_ATTEMPTS=", commands):
        yield "AWS_METADATA_SERVICE_TIMEOUT, AWS_METADATA_SERVICE_NUM_ATTEMPTS: not set, so busy nodes lack credentials"
    if "min_workers" in config:
        yield "min_workers: silently ignored at the top level"
    if "VSE_WORKSPACE=s3://" not in commands:
        yield "VSE_WORKSPACE: the default workspace must be on S3"
    if "--num-gpus=0" not in _commands_of(config, "head_start_ray_commands"):
        yield "head_start_ray_commands: the head must be started with --num-gpus=0"


def _regions(config: Mapping[str, Any], region: str) -> Iterator[str]:
    for key, value in config.items():
        named = set(_REGION.findall(_COMPARED.sub("", json.dumps(value, default=str, skipkeys=True))))
        for other in sorted(named - {region}):
            yield f"{key}: names {other}, but provider.region is {region}"


def _tagged(config: Mapping[str, Any]) -> Iterator[str]:
    """Whether the head may end the instances it starts, which carry the cluster's name as a tag."""
    name = config.get("cluster_name")
    for value in _values(config.get("metadata"), "aws:ResourceTag/ray-cluster-name"):
        if name not in (value if isinstance(value, list) else [value]):
            yield (
                f"metadata: the head may end instances of ray-cluster-name {value} only, but cluster_name is {name}: "
                "workers would go on costing; write it into the policies, and put these again"
            )


def _owned(config: Mapping[str, Any]) -> Iterator[str]:
    """Whether nodes use buckets of their own account only: another account may own a bucket of the same name."""
    for statements in _values(config.get("metadata"), "Statement"):
        for statement in statements if isinstance(statements, list) else ():
            action = statement.get("Action") if isinstance(statement, Mapping) else None
            actions = [str(each) for each in (action if isinstance(action, list) else [action])]
            if not any(each.startswith("s3:") for each in actions) or "s3:CreateBucket" in actions:
                continue
            account = part(part(statement, "Condition"), "StringEquals").get("aws:ResourceAccount")
            if account != "${aws:PrincipalAccount}":
                yield (
                    f"metadata: {actions[0]} is not limited to the account itself (aws:ResourceAccount), so nodes "
                    "would use another account's bucket of that name"
                )


def _values(data: Any, key: str) -> Iterator[Any]:
    """The values below a key, at any depth."""
    for name, value in data.items() if isinstance(data, Mapping) else enumerate(data) if isinstance(data, list) else ():
        if name == key:
            yield value
        yield from _values(value, key)


def _node_type(name: str, node_type: Mapping[str, Any], *, is_head: bool) -> Iterator[str]:
    node, resources = part(node_type, "node_config"), part(node_type, "resources")
    image = str(node.get("ImageId", ""))
    if not image.startswith(("ami-", "resolve:ssm:/")):
        yield f"{name}: ImageId must name an image or an SSM parameter"
    profile = part(node, "IamInstanceProfile")
    if not (profile.get("Name") or profile.get("Arn")):
        yield f"{name}: IamInstanceProfile is missing (Name or Arn), so S3 is out of reach"
    if not node.get("InstanceType"):
        yield f"{name}: InstanceType is missing"
    elif _TOO_OLD.match(str(node["InstanceType"])):
        yield f"{name}: {node['InstanceType']} has a GPU that torch no longer supports"
    if not resources or not all(isinstance(count, int) for count in resources.values()):
        yield f"{name}: resources must be stated as integers"
    if not any(_gib(disk) >= 50 for disk in _list(node, "BlockDeviceMappings")):
        yield f"{name}: BlockDeviceMappings must give the root volume 50 GiB or more"
    spot = part(node, "InstanceMarketOptions").get("MarketType") == "spot"
    if is_head:
        if spot:
            yield f"{name}: the head must not be a spot instance"
        if node_type.get("max_workers", 0) != 0:
            yield f"{name}: the head type must have max_workers: 0"
        if resources.get("GPU"):
            yield f"{name}: the head must offer no GPU"
    else:
        market = "spot" if spot else "on-demand"
        if part(node_type, "labels").get(LIFECYCLE) != market:
            yield f"{name}: is {market}, so it needs the label {LIFECYCLE}: {market}"
        if not node_type.get("max_workers"):
            yield f"{name}: max_workers is missing, so nothing bounds the bill"
        if not node_type.get("idle_timeout_s"):
            yield f"{name}: idle_timeout_s is missing"
        terminates = node.get("InstanceInitiatedShutdownBehavior") == "terminate"
        if not (terminates and "shutdown" in str(node.get("UserData", ""))):
            yield (
                f"{name}: goes on costing when the head is gone; it needs UserData that shuts it down if no Ray "
                "runs, and InstanceInitiatedShutdownBehavior: terminate"
            )


def _gib(disk: Any) -> float:
    size = part(disk, "Ebs").get("VolumeSize") if isinstance(disk, Mapping) else None
    return size if isinstance(size, int | float) else 0


def _hosts(config: Mapping[str, Any], provider: Mapping[str, Any]) -> Iterator[str]:
    hosts = [str(host) for host in (provider.get("head_ip"), *_list(provider, "worker_ips"))]
    for host in hosts:
        if _address(host) is None:
            yield f"provider: {host} is not an IP address; Ray knows on-prem nodes by their addresses only"
    if len(set(hosts)) != len(hosts):
        yield "provider: a host is listed twice"
    if "available_node_types" in config:
        yield "available_node_types: a list of hosts has none"
    if not part(config, "auth").get("ssh_private_key"):
        yield "auth.ssh_private_key: missing, so the head could not reach the workers"
    if "RAY_enable_autoscaler_v2=0" not in _commands_of(config, "head_start_ray_commands"):
        yield "head_start_ray_commands: workers of a list start only with RAY_enable_autoscaler_v2=0"
    for key in _START_COMMANDS:
        if "--node-ip-address=" not in _commands_of(config, key):
            yield f"{key}: --node-ip-address is missing, so Ray may take another address than the listed one"
    if "VSE_WORKSPACE=" not in _all_commands(config):
        yield "VSE_WORKSPACE: a default workspace that all hosts see is missing"


def _commands(config: Mapping[str, Any], ray_version: str, constraints: str) -> Iterator[str]:
    setup, commands = _commands_of(config, "setup_commands"), _all_commands(config)
    start = [str(command) for key in _START_COMMANDS for command in _list(config, key)]
    if not setup:
        yield "setup_commands: missing, so Ray would install a nightly build"
    pins = set(re.findall(r"\bray(?:\[[\w,]*\])?==([\w.]+)", setup))
    if pins != {ray_version}:
        yield f"setup_commands: Ray is pinned to {sorted(pins) or 'nothing'}, not to {ray_version}"
    if f"ray=={ray_version}" not in constraints.splitlines():
        yield f"constraints.txt: does not pin ray=={ray_version}"
    if "-c ~/vse/constraints.txt" not in setup:
        yield "setup_commands: versions are not held by constraints.txt"
    if "RAY_AUTH_MODE=token" not in commands:
        yield "RAY_AUTH_MODE: not set to token"
    for host in _LISTENS.findall(commands):
        if not _is_private(host):
            yield f"a service would listen on {host}, which is not a private address"
    for key in _START_COMMANDS:
        if "-m vse.cluster.node_logs" not in _commands_of(config, key):
            yield f"{key}: logs stay on the node, and are lost with it; start vse.cluster.node_logs"
    if not all(re.search(r"\bOMP_NUM_THREADS=1\b", command) for command in start if "ray start" in command):
        yield "start commands: OMP_NUM_THREADS is not 1, though Ray starts a task for every core"
    if "mlflow server" in commands and "MLFLOW_TRACKING_URI=http://" not in commands:
        yield "MLFLOW_TRACKING_URI: jobs would not find the server"


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host)
    return None


def _is_private(host: str) -> bool:
    address = _address(host)
    if address is None:
        return host == "localhost"
    return (address.is_private or address.is_loopback) and not address.is_unspecified


def _mounts(config: Mapping[str, Any], root: Path) -> Iterator[str]:
    mounts = {remote: str(local) for remote, local in part(config, "file_mounts").items()}
    for remote, local in mounts.items():
        path = root / local
        if local.startswith("~"):
            if not local.startswith("~/.ray/"):
                yield f"file_mounts: {local} is a personal file; only ~/.ray/ may be mounted"
        elif not path.exists():
            yield f"file_mounts: {local} does not exist"
        elif path.resolve() == root.resolve() or _size(path) > _MOUNT_LIMIT:
            yield f"file_mounts: {local} is too large for {remote}"
    if not any(local.startswith("~/.ray/auth_token") for local in mounts.values()):
        yield "file_mounts: the token does not reach the nodes"


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
