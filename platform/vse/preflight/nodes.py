"""What every node has: versions, GPUs that compute, clock, disks, shared memory, a workspace it can write to."""

import logging
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from typing import Any

from vse.cluster.capacity import Nodes, joined, listed, wait_for
from vse.errors import InputError, first_line
from vse.preflight.checks import Check, State
from vse.workspace.layout import Workspace
from vse.workspace.provenance import gpus, versions

log = logging.getLogger(__name__)

MAX_SKEW = 1.0  # seconds; tracked times would not be in order, and S3 refuses requests beyond minutes
MIN_DISK = 10.0  # GiB; checkpoints, caches of features, Ray's logs and spilled objects
MIN_SHARED = 0.25  # GiB; the smallest object store that jobs ask for
_GIB = 2**30


def facts(workspace: str) -> dict[str, Any]:
    """What this process finds on its node, as plain data; runs on every node."""
    return {
        "versions": versions(),
        "gpus": gpus(),
        "cuda": _cuda() if gpus() else "",
        "disk": {path: shutil.disk_usage(path).free / _GIB for path in (os.path.expanduser("~"), "/tmp")},
        "shared": shutil.disk_usage("/dev/shm").free / _GIB if os.path.isdir("/dev/shm") else None,
        "workspace": _unwritable(workspace),
    }


def _unwritable(workspace: str) -> str:
    try:
        Workspace.open(workspace).check_writable()
    except InputError as error:
        return str(error)
    return ""


def _cuda() -> str:
    """Why the GPUs cannot compute; empty if each one can."""
    import torch

    try:
        for device in range(torch.cuda.device_count() or 1):
            found = torch.ones(64, 64, device=f"cuda:{device}") @ torch.ones(64, 64, device=f"cuda:{device}")
            assert found[0, 0].item() == 64
    except (AssertionError, RuntimeError) as error:
        return first_line(error)
    if torch.cuda.device_count() != len(gpus()):
        return f"torch sees {torch.cuda.device_count()} of {len(gpus())} GPUs"
    return ""


def judge(where: str, found: Mapping[str, Any], expected: Mapping[str, str], ray_gpus: float | None) -> Iterator[Check]:
    """The checks of one node. expected: versions of the job's own process; ray_gpus: what Ray offers, if it runs."""
    other = {name: version for name, version in found["versions"].items() if expected.get(name) != version}
    other |= {name: "missing" for name in expected if name not in found["versions"]}
    told = ", ".join(f"{name} {version}, not {expected.get(name, 'there')}" for name, version in sorted(other.items()))
    yield _check("versions", where, not other, f"torch {expected.get('torch')}, ray {expected.get('ray')}", told)
    names = found["gpus"]
    if not names:
        yield _check("GPUs", where, not ray_gpus, "none", f"Ray offers {ray_gpus or 0:g}, the driver knows none")
    else:
        wrong = found["cuda"]
        if not wrong and ray_gpus is not None and ray_gpus != len(names):
            wrong = f"Ray offers {ray_gpus:g} of {len(names)}"
        yield _check("GPUs", where, not wrong, f"{len(names)} x {names[0]}, CUDA computes", f"{names[0]}: {wrong}")
    least = min(found["disk"], key=found["disk"].__getitem__)
    free = found["disk"][least]
    told = f"{free:.0f} GiB free in {least}"
    yield _check("disk", where, free >= MIN_DISK, told, f"{told}, at least {MIN_DISK:g} are needed")
    shared = found["shared"]
    if shared is None:
        yield Check("shared memory", where, "not checked", "this system has no /dev/shm")
    else:
        told = f"{shared:.1f} GiB free in /dev/shm"
        yield _check("shared memory", where, shared >= MIN_SHARED, told, f"{told}; give containers --shm-size")
    yield _check("workspace", where, not found["workspace"], "written to and removed again", found["workspace"])


def _check(what: str, where: str, good: bool, fine: str, wrong: str) -> Check:
    state: State = "ok" if good else "problem"
    return Check(what, where, state, fine if good else wrong)


def check_this_machine(workspace: str) -> list[Check]:
    """The checks of the machine this process runs on, without Ray."""
    return list(judge("this machine", facts(workspace), versions(), None))


def check_nodes(workspace: str, wait: float = 300.0) -> list[Check]:
    """The checks of every living node of the Ray this process has joined, through one actor on each."""
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
    for node, probe in zip(nodes, probes, strict=True):
        where = node["NodeManagerAddress"]
        try:
            found: Any = ray.get(probe.facts.remote(workspace), timeout=wait)
            skew, sure = _skew(lambda probe=probe: ray.get(probe.clock.remote(), timeout=wait))
        except RayError as error:
            checks.append(Check("node", where, "problem", f"does not answer ({first_line(error)})"))
            continue
        checks += judge(where, found, versions(), float(node["Resources"].get("GPU", 0)))
        told = f"{skew:+.3f} s from the head's, ± {sure:.3f}"
        checks.append(_check("clock", where, abs(skew) - sure <= MAX_SKEW, told, f"{told}; let chrony or ntpd set it"))
    return checks


def check_hosts(plan: Mapping[str, Any], nodes: Nodes, wait: float = 0.0) -> list[Check]:
    """Whether all hosts of a cluster that lists them join within `wait` seconds; nothing for any other cluster."""
    hosts = listed(plan)
    if not hosts:
        return []
    absent = wait_for(hosts, nodes, wait)
    told = joined(hosts, absent)
    wrong = f"{told}; they may still install: see the head's /tmp/ray/session_latest/logs/monitor*"
    return [_check("hosts", "cluster", not absent, told, wrong)]


class _Probe:
    """Lives on one node while it is checked."""

    def facts(self, workspace: str) -> dict[str, Any]:
        return facts(workspace)

    def clock(self) -> float:
        return time.time()


def _skew(clock: Any, rounds: int = 5) -> tuple[float, float]:
    """(seconds that a distant clock is ahead of ours, uncertainty): of several questions the one answered fastest."""
    asked: list[tuple[float, float]] = []
    for _ in range(rounds):
        before = time.time()
        there = clock()
        after = time.time()
        asked.append(((after - before) / 2, there - (before + after) / 2))
    sure, skew = min(asked)
    return skew, sure


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
    came, late = ray.wait(list(waiting.values()), num_returns=len(waiting), timeout=seconds)
    for task in late:
        ray.cancel(task)
    wrong = f"none came in {seconds:g} s; see `ray status` and the autoscaler's monitor.log"
    return [_check("worker type", name, task in came, "a node came", wrong) for name, task in waiting.items()]
