"""What Ray's schema does not ask of a cluster file, and a careful operator does."""

import ipaddress
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vse.cluster.runtime import LIFECYCLE

_SECRET = re.compile(r"AKIA[0-9A-Z]{16}|aws_secret|hf_[A-Za-z0-9]{20}|-----BEGIN|password\s*[=:]", re.IGNORECASE)
_TOO_OLD = re.compile(r"^p[23]\.")  # V100 and K80: no kernels for them in torch built for CUDA 13
_REGION = re.compile(r"\b[a-z]{2}(?:-(?:gov|iso[a-z]?))?-(?:north|south|east|west|central)(?:east|west)?-\d")
_COMPARED = re.compile(r"[!=]= *'us-east-1'")  # the one region that S3 does not want to be told
_LISTENS = re.compile(r"--(?:dashboard-)?host[= ](\S+)")
_MOUNT_LIMIT = 64 * 2**20


def problems(config: Mapping[str, Any], *, root: Path, ray_version: str, constraints: str) -> Iterator[str]:
    """One line per breach in a cluster configuration as written (before Ray fills in defaults).

    root: the folder that mounts are relative to; constraints: content of its constraints.txt.
    """
    provider = config.get("provider", {})
    if provider.get("type") == "local":
        yield from _hosts(config, provider)
    else:
        yield from _cloud(config, provider)
    yield from _commands(config, ray_version, constraints)
    yield from _mounts(config, root)
    if not config.get("idle_timeout_minutes"):
        yield "idle_timeout_minutes: idle workers would never end"
    if _SECRET.search(repr(config)):
        yield "a secret is written into the file"


def _cloud(config: Mapping[str, Any], provider: Mapping[str, Any]) -> Iterator[str]:
    head, types = config.get("head_node_type"), config.get("available_node_types", {})
    for name, kind in types.items():
        yield from _node_type(name, kind, is_head=name == head)
    markets = {kind.get("labels", {}).get(LIFECYCLE) for kind in types.values() if kind.get("resources", {}).get("GPU")}
    for market, why in (("on-demand", "Train ranks"), ("spot", "trials and extraction")):
        if market not in markets:
            yield f"available_node_types: no GPU type is labelled {LIFECYCLE}: {market}, for {why}"
    if provider.get("cache_stopped_nodes", True):
        yield "provider.cache_stopped_nodes: stopped spot instances go on costing their disks"
    if not provider.get("security_group", {}).get("GroupName"):
        yield "provider.security_group: not named, so Ray would make one with port 22 open to the world"
    yield from _regions(config, provider.get("region"))
    if not re.search(r"AWS_METADATA_SERVICE_TIMEOUT=.*AWS_METADATA_SERVICE_NUM_ATTEMPTS=", _everything(config)):
        yield "AWS_METADATA_SERVICE_TIMEOUT, AWS_METADATA_SERVICE_NUM_ATTEMPTS: not set, so busy nodes lack credentials"
    if "min_workers" in config:
        yield "min_workers: dropped in silence at the top level"
    if not re.search(r"VSE_WORKSPACE=s3://", _everything(config)):
        yield "VSE_WORKSPACE: the default workspace must be on S3"
    if "--num-gpus=0" not in "".join(config.get("head_start_ray_commands") or []):
        yield "head_start_ray_commands: the head must be started with --num-gpus=0"


def _regions(config: Mapping[str, Any], meant: str | None) -> Iterator[str]:
    for key, value in config.items():
        named = set(_REGION.findall(_COMPARED.sub("", json.dumps(value, default=str))))
        for region in sorted(named - {meant}):
            yield f"{key}: names {region}, but provider.region is {meant}"


def _node_type(name: str, kind: Mapping[str, Any], *, is_head: bool) -> Iterator[str]:
    node, resources = kind.get("node_config", {}), kind.get("resources", {})
    image = str(node.get("ImageId", ""))
    if not image.startswith(("ami-", "resolve:ssm:/")):
        yield f"{name}: ImageId must name an image or an SSM parameter"
    if not node.get("IamInstanceProfile"):
        yield f"{name}: IamInstanceProfile is missing, so S3 is out of reach"
    if _TOO_OLD.match(str(node.get("InstanceType", ""))):
        yield f"{name}: {node['InstanceType']} has a GPU that torch no longer supports"
    if not resources or not all(isinstance(count, int) for count in resources.values()):
        yield f"{name}: resources must be stated as integers"
    if not any(disk.get("Ebs", {}).get("VolumeSize", 0) >= 50 for disk in node.get("BlockDeviceMappings", [])):
        yield f"{name}: BlockDeviceMappings must give the root volume 50 GiB or more"
    spot = node.get("InstanceMarketOptions", {}).get("MarketType") == "spot"
    if is_head:
        if spot:
            yield f"{name}: the head must not be a spot instance"
        if kind.get("max_workers", 0) != 0:
            yield f"{name}: the head type must have max_workers: 0"
        if resources.get("GPU"):
            yield f"{name}: the head must offer no GPU"
    else:
        market = "spot" if spot else "on-demand"
        if kind.get("labels", {}).get(LIFECYCLE) != market:
            yield f"{name}: is {market}, so it needs the label {LIFECYCLE}: {market}"
        if not kind.get("max_workers"):
            yield f"{name}: max_workers is missing, so nothing bounds the bill"
        if not kind.get("idle_timeout_s"):
            yield f"{name}: idle_timeout_s is missing"


def _hosts(config: Mapping[str, Any], provider: Mapping[str, Any]) -> Iterator[str]:
    hosts = [provider.get("head_ip"), *(provider.get("worker_ips") or [])]
    for host in hosts:
        try:
            ipaddress.ip_address(str(host))
        except ValueError:
            yield f"provider: {host} is no address; Ray knows on-prem nodes by their addresses only"
    if len(set(hosts)) != len(hosts):
        yield "provider: a host is listed twice"
    if "available_node_types" in config:
        yield "available_node_types: hosts of a list have none"
    if not config.get("auth", {}).get("ssh_private_key"):
        yield "auth.ssh_private_key: missing, so the head could not reach the workers"
    if "RAY_enable_autoscaler_v2=0" not in "".join(config.get("head_start_ray_commands") or []):
        yield "head_start_ray_commands: workers of a list start only with RAY_enable_autoscaler_v2=0"
    for key in ("head_start_ray_commands", "worker_start_ray_commands"):
        if "--node-ip-address=" not in "".join(config.get(key) or []):
            yield f"{key}: --node-ip-address is missing, so Ray may take another address than the listed one"
    if "VSE_WORKSPACE=" not in _everything(config):
        yield "VSE_WORKSPACE: a default workspace that all hosts see is missing"


def _everything(config: Mapping[str, Any]) -> str:
    return "\n".join(
        command for key in sorted(config) if key.endswith("_commands") for command in config[key] or [] if command
    )


def _commands(config: Mapping[str, Any], ray_version: str, constraints: str) -> Iterator[str]:
    setup, everything = "\n".join(config.get("setup_commands") or []), _everything(config)
    start = [command for key in ("head", "worker") for command in config.get(f"{key}_start_ray_commands") or []]
    if not setup:
        yield "setup_commands: missing, so Ray would install a nightly build"
    pins = set(re.findall(r"\bray(?:\[[\w,]*\])?==([\w.]+)", setup))
    if pins != {ray_version}:
        yield f"setup_commands: Ray is pinned to {sorted(pins) or 'nothing'}, not to {ray_version}"
    if f"ray=={ray_version}" not in constraints.splitlines():
        yield f"constraints.txt: does not pin ray=={ray_version}"
    if "-c ~/vse/constraints.txt" not in setup:
        yield "setup_commands: versions are not held by constraints.txt"
    if "RAY_AUTH_MODE=token" not in everything:
        yield "RAY_AUTH_MODE: not set to token"
    for host in _LISTENS.findall(everything):
        if not _private(host):
            yield f"a service would listen on {host}, which is no private address"
    for key in ("head_start_ray_commands", "worker_start_ray_commands"):
        if "-m vse.node_logs" not in "".join(config.get(key) or []):
            yield f"{key}: logs stay on the node, and are lost with it; start vse.node_logs"
    if not all(re.search(r"\bOMP_NUM_THREADS=1\b", command) for command in start if "ray start" in command):
        yield "start commands: OMP_NUM_THREADS is not 1, though Ray starts a task for every core"
    if "mlflow server" in everything and "MLFLOW_TRACKING_URI=http://" not in everything:
        yield "MLFLOW_TRACKING_URI: jobs would not find the server"


def _private(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    return (address.is_private or address.is_loopback) and not address.is_unspecified


def _mounts(config: Mapping[str, Any], root: Path) -> Iterator[str]:
    mounts = config.get("file_mounts") or {}
    for remote, local in mounts.items():
        path = root / local
        if str(local).startswith("~"):
            if not str(local).startswith("~/.ray/"):
                yield f"file_mounts: {local} is somebody's own"
            continue
        if not path.exists():
            yield f"file_mounts: {local} does not exist"
        elif path.resolve() == root.resolve() or _size(path) > _MOUNT_LIMIT:
            yield f"file_mounts: {local} is too large for {remote}"
    if not any(str(local).startswith("~/.ray/auth_token") for local in mounts.values()):
        yield "file_mounts: the token does not reach the nodes"


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
