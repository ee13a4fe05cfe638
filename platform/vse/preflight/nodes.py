"""Checks of every node: versions, GPUs, clock, free disk, shared memory, and whether it shares the workspace."""

import contextlib
import logging
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from typing import Any

from vse.cluster.capacity import Nodes, joined, listed, wait_for
from vse.cluster.placement import marker
from vse.errors import InputError, first_line
from vse.preflight.checks import Check
from vse.workspace.layout import Workspace
from vse.workspace.provenance import gpus, versions

log = logging.getLogger(__name__)

MAX_SKEW = 1.0  # seconds; tracked times would not be in order, and S3 refuses requests beyond minutes
MIN_DISK = 10.0  # GiB; checkpoints, caches of features, Ray's logs and spilled objects
MIN_SHARED = 0.25  # GiB; the smallest object store that jobs ask for
_GIB = 2**30


def facts(workspace: str, marker_path: str = "") -> dict[str, Any]:
    """The state of the node that this process runs on, as plain data.

    Args:
        workspace: URI of the workspace.
        marker_path: path of a file there that this node must see, because another node wrote it; empty for none.
    """
    return {
        "versions": versions(),
        "gpus": gpus(),
        "cuda": _cuda() if gpus() else "",
        "disk": {path: _free(path) for path in (os.path.expanduser("~"), "/tmp")},
        "shared": shutil.disk_usage("/dev/shm").free / _GIB if os.path.isdir("/dev/shm") else None,
        "workspace": _unwritable(workspace) or _unseen(workspace, marker_path),
    }


def _free(path: str) -> float | None:
    """GiB free on the disk of a folder; None if the folder is missing, as the home of some users in containers."""
    try:
        return shutil.disk_usage(path).free / _GIB
    except OSError:
        return None


def _unwritable(workspace: str) -> str:
    try:
        Workspace.open(workspace).check_writable()
    except InputError as error:
        return str(error)
    return ""


def _unseen(workspace: str, marker_path: str) -> str:
    if not marker_path or os.path.exists(marker_path):
        return ""
    return f"{workspace}: this node does not see this folder; name an s3:// address, or share the folder over NFS"


def _cuda() -> str:
    """Why the GPUs cannot compute; empty if each one can."""
    import torch

    try:
        for device in range(torch.cuda.device_count() or 1):
            ones = torch.ones(64, 64, device=f"cuda:{device}")
            assert (ones @ ones)[0, 0].item() == 64
    except (AssertionError, RuntimeError) as error:
        return first_line(error)
    if torch.cuda.device_count() != len(gpus()):
        return f"torch sees {torch.cuda.device_count()} of {len(gpus())} GPUs"
    return ""


def judge(where: str, node: Mapping[str, Any], expected: Mapping[str, str], ray_gpus: float | None) -> Iterator[Check]:
    """The checks of one node.

    Args:
        where: name of the node in the table.
        node: what `facts` returned on it.
        expected: versions of the job's own process.
        ray_gpus: number of GPUs that Ray offers there; None without Ray.
    """
    other = {name: version for name, version in node["versions"].items() if expected.get(name) != version}
    other |= {name: "missing" for name in expected if name not in node["versions"]}
    text = ", ".join(f"{name} {version}, not {expected.get(name, 'there')}" for name, version in sorted(other.items()))
    yield Check.of("versions", where, not other, f"torch {expected.get('torch')}, ray {expected.get('ray')}", text)
    names = node["gpus"]
    if not names:
        yield Check.of("GPUs", where, not ray_gpus, "none", f"Ray offers {ray_gpus or 0:g}, the driver reports none")
    else:
        problem = node["cuda"]
        if not problem and ray_gpus is not None and ray_gpus != len(names):
            problem = f"Ray offers {ray_gpus:g} of {len(names)}"
        text = f"{len(names)} x {names[0]}, CUDA computes"
        yield Check.of("GPUs", where, not problem, text, f"{names[0]}: {problem}")
    yield _disk(where, node["disk"])
    shared = node["shared"]
    if shared is None:
        yield Check("shared memory", where, "not checked", "this system has no /dev/shm")
    else:
        text = f"{shared:.1f} GiB free in /dev/shm"
        yield Check.of("shared memory", where, shared >= MIN_SHARED, text, f"{text}; give containers --shm-size")
    yield Check.of("workspace", where, not node["workspace"], "written to and removed again", node["workspace"])


def _disk(where: str, disk: Mapping[str, float | None]) -> Check:
    """The check of the fullest disk; folders that are missing are named."""
    missing = "".join(f"; {path} does not exist or cannot be read" for path, free in disk.items() if free is None)
    sizes = {path: free for path, free in disk.items() if free is not None}
    if not sizes:
        return Check("disk", where, "not checked", missing.removeprefix("; "))
    fullest = min(sizes, key=sizes.__getitem__)
    text = f"{sizes[fullest]:.0f} GiB free in {fullest}"
    problem = f"{text}, at least {MIN_DISK:g} are needed{missing}"
    return Check.of("disk", where, sizes[fullest] >= MIN_DISK, text + missing, problem)


def check_this_machine(workspace: str) -> list[Check]:
    """The checks of the machine this process runs on, without Ray."""
    return list(judge("this machine", facts(workspace), versions(), None))


def check_nodes(workspace: str, wait: float = 300.0) -> list[Check]:
    """The checks of every living node of the cluster this process has joined, through one actor on each."""
    import ray
    from ray.exceptions import RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = sorted((node for node in ray.nodes() if node["Alive"]), key=lambda node: node["NodeManagerAddress"])
    remote: Any = ray.remote(num_cpus=0)(_Probe)
    probes = [
        remote.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote()
        for node in nodes
    ]
    checks: list[Check] = []
    with _marker(workspace, len(nodes)) as marker_path:
        for node, probe in zip(nodes, probes, strict=True):
            where = node["NodeManagerAddress"]
            try:
                state: Any = ray.get(probe.facts.remote(workspace, marker_path), timeout=wait)
                skew, uncertainty = _skew(lambda probe=probe: ray.get(probe.clock.remote(), timeout=wait))
            except RayError as error:
                checks.append(Check("node", where, "problem", f"does not answer ({first_line(error)})"))
                continue
            checks += judge(where, state, versions(), float(node["Resources"].get("GPU", 0)))
            text, passed = f"{skew:+.3f} s from the head's, ± {uncertainty:.3f}", abs(skew) - uncertainty <= MAX_SKEW
            checks.append(Check.of("clock", where, passed, text, f"{text}; let chrony or ntpd set it"))
    return checks


def _marker(workspace: str, nodes: int) -> contextlib.AbstractContextManager[str]:
    """A file that all nodes must see, of a local workspace and several nodes; else an empty path.

    If this process cannot write there, each node reports the folder, and there is no file to look for.
    """
    root = Workspace.open(workspace).root
    shares = root.is_local and nodes > 1 and not _unwritable(workspace)
    return marker(root) if shares else contextlib.nullcontext("")


def check_hosts(plan: Mapping[str, Any], nodes: Nodes, wait: float = 0.0) -> list[Check]:
    """Whether all hosts of a cluster that lists them have joined; empty for any other cluster.

    Args:
        plan: content of the cluster file.
        nodes: like `ray.nodes`.
        wait: seconds to wait for hosts at most.
    """
    hosts = listed(plan)
    if not hosts:
        return []
    absent = wait_for(hosts, nodes, wait)
    text = joined(hosts, absent)
    problem = f"{text}; they may still install: see the head's /tmp/ray/session_latest/logs/monitor*"
    return [Check.of("hosts", "cluster", not absent, text, problem)]


class _Probe:
    """An actor on the node that is checked."""

    def facts(self, workspace: str, marker_path: str) -> dict[str, Any]:
        return facts(workspace, marker_path)

    def clock(self) -> float:
        return time.time()


def _skew(clock: Any) -> tuple[float, float]:
    """(seconds that a remote clock is ahead of ours, uncertainty), from the fastest of several requests."""
    measured: list[tuple[float, float]] = []
    for _ in range(5):
        before = time.time()
        remote = clock()
        after = time.time()
        measured.append(((after - before) / 2, remote - (before + after) / 2))
    uncertainty, skew = min(measured)
    return skew, uncertainty


def bring_up(kinds: Mapping[str, Mapping[str, Any]], seconds: float) -> list[Check]:
    """Ask the autoscaler for one node of every worker type, by its labels and all its CPUs and GPUs, and wait."""
    import ray

    touch: Any = ray.remote(versions)
    waiting = {}
    for name, kind in kinds.items():
        whole = {"num_cpus": kind["resources"].get("CPU", 1), "num_gpus": kind["resources"].get("GPU", 0)}
        waiting[name] = touch.options(**whole, label_selector=dict(kind.get("labels") or {})).remote()
    if not waiting:
        return []
    log.info("waiting up to %g s for %s", seconds, ", ".join(waiting))
    done, pending = ray.wait(list(waiting.values()), num_returns=len(waiting), timeout=seconds)
    for task in pending:
        ray.cancel(task)
    problem = f"no node started in {seconds:g} s; see `ray status` and the autoscaler's monitor.log"
    return [Check.of("worker type", name, task in done, "a node started", problem) for name, task in waiting.items()]
