"""The nodes of a cluster: how many there can be, what fits on them, and which listed hosts have joined.

An autoscaler starts without workers, so the running nodes do not limit what a job may request. On a cluster of listed
hosts, `ray up` returns when the head is ready, while workers still install.
"""

import functools
import logging
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from vse.cluster import ray_private
from vse.cluster.liveness import RAY, session_of
from vse.errors import first_line

log = logging.getLogger(__name__)

EVERY = 2.0  # seconds between looks at the nodes
Nodes = Callable[[], Sequence[Mapping[str, Any]]]
LAUNCHED = "~/ray_bootstrap_config.yaml"  # written on the head by the cluster launcher
_HEAD_OF_KUBERAY = ("RAY_NODE_TYPE_NAME", "headgroup")  # KubeRay sets this variable, with this value on the head only
_SLACK = 1e-9  # for sums of fractions


@dataclass(frozen=True, slots=True)
class NodeKind:
    """At most `count` equal nodes, each with `cpus` CPUs and `gpus` GPUs. The head always exists."""

    cpus: float
    gpus: float = 0.0
    count: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    head: bool = False

    def holds(self, cpus: float, gpus: float) -> int:
        """How many workers with `cpus` CPUs and `gpus` GPUs each fit on one node."""
        fits = [int(has / needs + _SLACK) for has, needs in ((self.cpus, cpus), (self.gpus, gpus)) if needs]
        return min(fits, default=0)

    def has(self, labels: Mapping[str, str] | None) -> bool:
        """Whether the nodes carry all of `labels`."""
        return all(self.labels.get(name) == value for name, value in (labels or {}).items())


@dataclass(frozen=True, slots=True)
class Capacity:
    """Kinds of nodes; at most `limit` nodes in addition to the head (None: no limit beyond those of the kinds)."""

    kinds: tuple[NodeKind, ...]
    limit: int | None = None

    @property
    def nodes(self) -> int:
        """The largest number of nodes."""
        return int(self._most(lambda kind: 1))

    def total(self, labels: Mapping[str, str] | None = None) -> dict[str, float]:
        """The largest number of CPUs and of GPUs, on nodes with these labels."""
        chosen = Capacity(tuple(kind for kind in self.kinds if kind.has(labels)), self.limit)
        return {"CPU": chosen._most(lambda kind: kind.cpus), "GPU": chosen._most(lambda kind: kind.gpus)}

    def room(self, cpus: float, gpus: float = 0.0, labels: Mapping[str, str] | None = None) -> int:
        """How many equal workers fit at the same time, each of them on one node.

        Args:
            cpus: CPUs of a worker.
            gpus: GPUs of a worker.
            labels: labels that a worker's node must carry; None for any node.
        """
        return int(self._most(lambda kind: kind.holds(cpus, gpus) if kind.has(labels) else 0))

    def groups(
        self,
        size: int,
        cpus: float,
        gpus: float = 0.0,
        labels: Mapping[str, str] | None = None,
        *,
        driver_cpus: float = 0.0,
    ) -> int:
        """How many groups of `size` workers fit, if the driver of each group takes `driver_cpus` CPUs of any node.

        All drivers are counted on one node, of the kind with the least to spare, because Ray fills a node before the
        next.

        Args:
            size: workers of a group.
            cpus: CPUs of a worker.
            gpus: GPUs of a worker.
            labels: of the nodes for workers.
            driver_cpus: CPUs of the driver of a group.
        """
        room = self.room(cpus, gpus, labels)
        groups = room // size

        def lost(kind: NodeKind) -> int:
            rest = replace(kind, cpus=max(0.0, kind.cpus - groups * driver_cpus))
            return kind.holds(cpus, gpus) - rest.holds(cpus, gpus)

        chosen = [kind for kind in self.kinds if kind.has(labels)]
        while groups and groups * size > room - max(map(lost, chosen)):
            groups -= 1
        return groups

    def without_gpus(self) -> "Capacity":
        """The nodes without GPUs, for work that needs none, or all nodes if no such node has a core."""
        plain = tuple(kind for kind in self.kinds if not kind.gpus)
        return Capacity(plain, self.limit) if any(kind.cpus >= 1 for kind in plain) else self

    def _most(self, value: Callable[[NodeKind], float]) -> float:
        """The largest sum of `value` over nodes that the limit allows."""
        left, total = self.limit if self.limit is not None else sum(kind.count for kind in self.kinds), 0.0
        for kind in sorted(self.kinds, key=value, reverse=True):
            count = kind.count if kind.head else min(kind.count, left)
            left -= 0 if kind.head else count
            total += count * value(kind)
        return total


def launched_plan() -> dict[str, Any] | None:
    """The plan of the cluster whose head this machine is; None on any other machine.

    It is the completed cluster file of `ray up`, or what Ray's autoscaler makes of the RayCluster on Kubernetes.
    """
    launched = Path(LAUNCHED).expanduser()
    if launched.exists():
        import yaml

        return yaml.safe_load(launched.read_text(encoding="utf-8"))
    variable, head = _HEAD_OF_KUBERAY
    if os.environ.get(variable) != head:
        return None
    return _kuberay_plan(os.environ.get("RAY_CLUSTER_NAME", ""), os.environ.get("RAY_CLUSTER_NAMESPACE", ""))


@functools.cache  # a job keeps the limits that it read at its start
def _kuberay_plan(name: str, namespace: str) -> dict[str, Any] | None:
    try:
        return ray_private.plan_of_ray_cluster(ray_private.ray_cluster_resource(name, namespace))
    except (OSError, KeyError, ValueError) as error:
        log.warning(
            "RayCluster %s/%s cannot be read (%s), so only running nodes count; KubeRay allows the head to "
            "read it if enableInTreeAutoscaling is true",
            namespace,
            name,
            first_line(error),
        )
        return None


def planned(plan: Mapping[str, Any]) -> Capacity:
    """The capacity that a completed cluster file allows."""
    kinds = []
    for name, kind in (plan.get("available_node_types") or {}).items():
        head = name == plan.get("head_node_type")
        resources = kind.get("resources") or {}
        count = 1 if head else int(kind.get("max_workers") or 0)
        labels = dict(kind.get("labels") or {})
        cpus, gpus = float(resources.get("CPU", 0)), float(resources.get("GPU", 0))
        kinds.append(NodeKind(cpus, gpus, count, labels, head))
    return Capacity(tuple(kinds), int(plan.get("max_workers") or 0))


def living(nodes: Sequence[Mapping[str, Any]]) -> Capacity:
    """The capacity of the living nodes in the list of `ray.nodes()`."""
    return Capacity(
        tuple(
            NodeKind(node["Resources"].get("CPU", 0.0), node["Resources"].get("GPU", 0.0), 1, node.get("Labels") or {})
            for node in nodes
            if node["Alive"]
        )
    )


def listed(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """Addresses of all hosts of a cluster file that lists them, the head first; empty for any other file."""
    provider = plan.get("provider") or {}
    if provider.get("type") != "local":
        return ()
    return (str(provider.get("head_ip")), *map(str, provider.get("worker_ips") or ()))


def missing(hosts: Sequence[str], nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """The hosts that are no living node in the list of `ray.nodes()`.

    Empty if there are as many nodes as hosts, because Ray may use another address of a host.
    """
    addresses = [node["NodeManagerAddress"] for node in nodes if node["Alive"]]
    return [] if len(addresses) >= len(hosts) else [host for host in hosts if not _addresses(host) & set(addresses)]


def _addresses(host: str) -> set[str]:
    try:
        return {host, *(str(info[4][0]) for info in socket.getaddrinfo(host, None))}
    except OSError:
        return {host}


def up_for(ray: Path = RAY) -> float:
    """Seconds since the Ray of this cluster started, by the name of its session; 0 if that has no time."""
    try:
        started = datetime.strptime("_".join(session_of(ray).name.split("_")[1:3]), "%Y-%m-%d_%H-%M-%S")
    except ValueError:
        return 0.0
    return max(0.0, (datetime.now() - started).total_seconds())


def wait_for(
    hosts: Sequence[str],
    nodes: Nodes,
    seconds: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> list[str]:
    """Wait until all hosts have joined; returns the hosts that have not.

    Args:
        hosts: addresses.
        nodes: like `ray.nodes`.
        seconds: to wait at most.
        clock: for tests.
        sleep: for tests.
    """
    start = clock()
    absent = missing(hosts, nodes())
    if absent and seconds > 0:
        log.info("%s; waiting up to %g s for the others", joined(hosts, absent), seconds)
    while absent and clock() - start < seconds:
        sleep(min(EVERY, seconds))
        absent = missing(hosts, nodes())
    return absent


def joined(hosts: Sequence[str], absent: Sequence[str]) -> str:
    """How many hosts have joined and which have not, in words."""
    count = f"{len(hosts) - len(absent)} of {len(hosts)} hosts have joined"
    return f"{count} (missing: {', '.join(absent)})" if absent else count
