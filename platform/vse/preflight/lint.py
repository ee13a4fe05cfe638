"""What Ray's schema does not ask of a cluster file, and a careful operator does."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

_SECRET = re.compile(r"AKIA[0-9A-Z]{16}|aws_secret|hf_[A-Za-z0-9]{20}|-----BEGIN|password\s*[=:]", re.IGNORECASE)
_TOO_OLD = re.compile(r"^p[23]\.")  # V100 and K80: no kernels for them in torch built for CUDA 13
_MOUNT_LIMIT = 64 * 2**20


def problems(config: Mapping[str, Any], *, root: Path, ray_version: str, constraints: str) -> Iterator[str]:
    """One line per breach in a cluster configuration as written (before Ray fills in defaults)."""
    head = config.get("head_node_type")
    for name, kind in config.get("available_node_types", {}).items():
        yield from _node_type(name, kind, is_head=name == head)
    yield from _commands(config, ray_version, constraints)
    yield from _mounts(config, root)
    if config.get("provider", {}).get("cache_stopped_nodes", True):
        yield "provider.cache_stopped_nodes: stopped spot instances go on costing their disks"
    if not config.get("idle_timeout_minutes"):
        yield "idle_timeout_minutes: idle workers would never end"
    if "min_workers" in config:
        yield "min_workers: dropped in silence at the top level"
    if _SECRET.search(repr(config)):
        yield "a secret is written into the file"


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
    spot = node.get("InstanceMarketOptions", {}).get("MarketType") == "spot"
    if is_head:
        if spot:
            yield f"{name}: the head must not be a spot instance"
        if kind.get("max_workers", 0) != 0:
            yield f"{name}: the head type must have max_workers: 0"
        if resources.get("GPU"):
            yield f"{name}: the head must offer no GPU"
    else:
        if not spot:
            yield f"{name}: workers should be spot instances"
        if not kind.get("max_workers"):
            yield f"{name}: max_workers is missing, so nothing bounds the bill"
        if not kind.get("idle_timeout_s"):
            yield f"{name}: idle_timeout_s is missing"


def _commands(config: Mapping[str, Any], ray_version: str, constraints: str) -> Iterator[str]:
    setup = "\n".join(config.get("setup_commands") or [])
    start = "\n".join(config.get("head_start_ray_commands") or []) + "\n".join(
        config.get("worker_start_ray_commands") or []
    )
    everything = setup + "\n".join(config.get("head_setup_commands") or []) + start
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
    if "0.0.0.0" in everything or "--host=::" in everything:
        yield "a service would listen on a public address"
    if "--num-gpus=0" not in start:
        yield "head_start_ray_commands: the head must be started with --num-gpus=0"
    if "OMP_NUM_THREADS=" not in start:
        yield "start commands: OMP_NUM_THREADS is left to chance"
    if not re.search(r"VSE_WORKSPACE=s3://", everything):
        yield "VSE_WORKSPACE: the default workspace must be on S3"
    if "mlflow server" in everything and "MLFLOW_TRACKING_URI=http://" not in everything:
        yield "MLFLOW_TRACKING_URI: jobs would not find the server"


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
