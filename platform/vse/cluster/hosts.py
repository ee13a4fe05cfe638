"""The hosts of a cluster that is a list of them: `ray up` returns when the head is ready, and workers still install."""

import logging
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from vse.cluster.node_watch import RAY, session_of

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
    """Those that are no living node, by what Ray says of its nodes; none where there are as many nodes as hosts, since
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
