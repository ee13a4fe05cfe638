"""The nodes of a cluster: those it can grow to, what fits on them, and which of the listed hosts have joined.

An autoscaler starts from nothing, so the nodes that are up say little about what a job may ask for. On a cluster that
is a list of hosts, `ray up` returns when the head is ready, while workers still install.
"""

import logging
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from vse.cluster.liveness import RAY, session_of

LAUNCHED = "~/ray_bootstrap_config.yaml"  # the cluster launcher leaves it on the head
_SLACK = 1e-9  # of a sum of fractions


@dataclass(frozen=True, slots=True)
class Kind:
    """At most `count` nodes that are alike, each with so many CPUs and GPUs. The head is always there."""

    cpus: float
    gpus: float = 0.0
    count: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    head: bool = False

    def holds(self, cpus: float, gpus: float) -> int:
        """How many pieces of work, of so many CPUs and GPUs each, one node holds."""
        fits = [int(has / asked + _SLACK) for has, asked in ((self.cpus, cpus), (self.gpus, gpus)) if asked]
        return min(fits, default=0)

    def has(self, labels: Mapping[str, str] | None) -> bool:
        """Whether the nodes carry all of `labels`."""
        return all(self.labels.get(name) == value for name, value in (labels or {}).items())


@dataclass(frozen=True, slots=True)
class Capacity:
    """Kinds of nodes; at most `limit` nodes beside the head, whatever the kinds allow each (none: no such limit)."""

    kinds: tuple[Kind, ...]
    limit: int | None = None

    @property
    def nodes(self) -> int:
        """The largest number of nodes."""
        return int(self._most(lambda kind: 1))

    def total(self, labels: Mapping[str, str] | None = None) -> dict[str, float]:
        """Most CPUs and most GPUs, on nodes with these labels."""
        chosen = Capacity(tuple(kind for kind in self.kinds if kind.has(labels)), self.limit)
        return {"CPU": chosen._most(lambda kind: kind.cpus), "GPU": chosen._most(lambda kind: kind.gpus)}

    def room(self, cpus: float, gpus: float = 0.0, labels: Mapping[str, str] | None = None) -> int:
        """How many pieces of work fit that take so many CPUs and GPUs each, of one node."""
        return int(self._most(lambda kind: kind.holds(cpus, gpus) if kind.has(labels) else 0))

    def groups(
        self,
        size: int,
        cpus: float,
        gpus: float = 0.0,
        labels: Mapping[str, str] | None = None,
        *,
        beside: float = 0.0,
    ) -> int:
        """How many groups of so many pieces of work fit, where each group takes CPUs `beside` them, of any node.

        These are counted on one node, of the kind that has least to spare: Ray fills a node before the next.
        """
        room = self.room(cpus, gpus, labels)
        groups = room // size

        def lost(kind: Kind) -> int:
            less = replace(kind, cpus=max(0.0, kind.cpus - groups * beside))
            return kind.holds(cpus, gpus) - less.holds(cpus, gpus)

        chosen = [kind for kind in self.kinds if kind.has(labels)]
        while groups and groups * size > room - max(map(lost, chosen)):
            groups -= 1
        return groups

    def without_gpus(self) -> "Capacity":
        """What work without GPUs should spread over: nodes that have none, if any of these has a core."""
        plain = tuple(kind for kind in self.kinds if not kind.gpus)
        return Capacity(plain, self.limit) if any(kind.cpus >= 1 for kind in plain) else self

    def _most(self, value: Callable[[Kind], float]) -> float:
        """The largest sum of a node's value that the limit allows."""
        left, total = self.limit if self.limit is not None else sum(kind.count for kind in self.kinds), 0.0
        for kind in sorted(self.kinds, key=value, reverse=True):
            count = kind.count if kind.head else min(kind.count, left)
            left -= 0 if kind.head else count
            total += count * value(kind)
        return total


def launched_plan() -> dict[str, Any] | None:
    """The cluster file this head was launched with, as the launcher filled it in; None on any other machine."""
    launched = Path(LAUNCHED).expanduser()
    if not launched.exists():
        return None
    import yaml

    return yaml.safe_load(launched.read_text(encoding="utf-8"))


def planned(plan: Mapping[str, Any]) -> Capacity:
    """What a cluster file allows, as the launcher filled it in."""
    kinds = []
    for name, kind in (plan.get("available_node_types") or {}).items():
        head = name == plan.get("head_node_type")
        has = kind.get("resources") or {}
        count = 1 if head else int(kind.get("max_workers") or 0)
        labels = dict(kind.get("labels") or {})
        kinds.append(Kind(float(has.get("CPU", 0)), float(has.get("GPU", 0)), count, labels, head))
    return Capacity(tuple(kinds), int(plan.get("max_workers") or 0))


def living(nodes: Sequence[Mapping[str, Any]]) -> Capacity:
    """What is up, from what Ray says of its nodes."""
    return Capacity(
        tuple(
            Kind(node["Resources"].get("CPU", 0.0), node["Resources"].get("GPU", 0.0), 1, node.get("Labels") or {})
            for node in nodes
            if node["Alive"]
        )
    )


log = logging.getLogger(__name__)

EVERY = 2.0  # seconds between looks
Nodes = Callable[[], Sequence[Mapping[str, Any]]]


def listed(plan: Mapping[str, Any]) -> tuple[str, ...]:
    """Addresses of all hosts of a cluster file that lists them, the head first; none of any other file."""
    provider = plan.get("provider") or {}
    if provider.get("type") != "local":
        return ()
    return (str(provider.get("head_ip")), *map(str, provider.get("worker_ips") or ()))


def missing(hosts: Sequence[str], nodes: Sequence[Mapping[str, Any]]) -> list[str]:
    """Those that are no living node, by what Ray says of its nodes; none if there are as many nodes as hosts, since
    a host may be known to Ray by another of its addresses."""
    here = [node["NodeManagerAddress"] for node in nodes if node["Alive"]]
    return [] if len(here) >= len(hosts) else [host for host in hosts if not _addresses(host) & set(here)]


def _addresses(host: str) -> set[str]:
    try:
        return {host, *(str(found[4][0]) for found in socket.getaddrinfo(host, None))}
    except OSError:
        return {host}


def up_for(ray: Path = RAY) -> float:
    """Seconds since the Ray of this cluster began, by the name of its session; 0 where that does not say."""
    try:
        begun = datetime.strptime("_".join(session_of(ray).name.split("_")[1:3]), "%Y-%m-%d_%H-%M-%S")
    except ValueError:
        return 0.0
    return max(0.0, (datetime.now() - begun).total_seconds())


def wait_for(
    hosts: Sequence[str],
    nodes: Nodes,
    seconds: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> list[str]:
    """Wait until all have joined, for so many seconds at most; those that have not."""
    began = clock()
    absent = missing(hosts, nodes())
    if absent and seconds > 0:
        log.info("%s; waiting up to %g s for the others", joined(hosts, absent), seconds)
    while absent and clock() - began < seconds:
        sleep(min(EVERY, seconds))
        absent = missing(hosts, nodes())
    return absent


def joined(hosts: Sequence[str], absent: Sequence[str]) -> str:
    """How many have joined, and which have not."""
    count = f"{len(hosts) - len(absent)} of {len(hosts)} hosts have joined"
    return f"{count} (missing: {', '.join(absent)})" if absent else count
