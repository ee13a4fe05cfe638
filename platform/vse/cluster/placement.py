"""What a machine or a cluster can hold, and what is refused for want of it before any Ray process starts."""

import logging
import os
import sys
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from vse.cluster.capacity import Capacity, Kind, joined, launched_plan, listed, living, planned, up_for, wait_for
from vse.cluster.runtime import Config, cluster_address, placement_seconds, running_ray, started_here
from vse.errors import InputError, PlacementError
from vse.training.config import check_gpus
from vse.workspace.layout import Workspace
from vse.workspace.provenance import gpus, usable_cores

log = logging.getLogger(__name__)

ANSWER_SECONDS = 120.0  # for a node to answer a question


def preflight(
    workspace: str,
    config: Config,
    *,
    workers: int = 1,
    cpus_per_worker: float = 1,
    gpus_per_worker: float = 0,
    labels: Mapping[str, str] | None = None,
    key: str = "workers",
) -> None:
    """Refuse, before any Ray process starts, what could never run. Raises InputError naming `key`, or besides it
    `gpus_per_worker` or `threads` where one worker is too large or no worker can have its share, and what there is.

    Checks the largest the machine or cluster could ever be (an autoscaler's limits count; `labels`: of the nodes that
    workers belong on), and that the workspace can be written to, from every node that may work on it.
    """
    Workspace.open(workspace).check_writable()
    gather(config)
    most = check_room(
        config,
        workers=workers,
        cpus_per_worker=cpus_per_worker,
        gpus_per_worker=gpus_per_worker,
        labels=labels,
        key=key,
    )
    local = Workspace.open(workspace).root.is_local
    if most.nodes > 1 and local and not config.shared_workspace:
        with running_ray(config) as session:
            if session.nodes > 1:
                check_shared(workspace)
                return
        raise InputError(
            f"--workspace {workspace}: a local path, but the cluster can have {most.nodes} nodes, and no other is "
            "up yet to check that it sees this folder; name an s3:// address, or set ray.shared_workspace=true for NFS"
        )


def check_room(
    config: Config,
    *,
    workers: int = 1,
    cpus_per_worker: float = 1,
    gpus_per_worker: float = 0,
    labels: Mapping[str, str] | None = None,
    key: str = "workers",
) -> Capacity:
    """What there can be, as `capacity` tells. Raises InputError, as `preflight` does, where workers could never run;
    nothing is written, and no Ray process starts."""
    beside = key.removesuffix("workers")
    check_gpus(workers, gpus_per_worker, beside)
    here = cluster_address(config) is None
    most = capacity(config)
    place = "this machine has" if here else "the cluster can have"
    total, where = most.total(labels), "".join(f" on nodes labelled {k}: {v}" for k, v in (labels or {}).items())
    if gpus_per_worker and not total["GPU"]:
        without = f"; leave {beside}gpus_per_worker out to train on its CPUs" if here else ""
        raise InputError(
            f"{beside}gpus_per_worker={gpus_per_worker:g}: a GPU is asked for, but {place} none{where}{without}"
        )
    for kind, each, one in (("GPU", gpus_per_worker, "gpus_per_worker"), ("CPU", cpus_per_worker, "threads")):
        if each > total[kind]:
            raise InputError(f"{beside}{one}={each:g}: needs {each:g} {kind}s, but {place} {total[kind]:g}{where}")
        if workers * each > total[kind]:
            raise InputError(
                f"{key}={workers}: needs {workers * each:g} {kind}s, but {place} {total[kind]:g}{where}; "
                f"at most {_that_fit(int(total[kind] // each))}"
            )
    fit = most.room(cpus_per_worker, gpus_per_worker, labels)
    if workers > fit:
        raise InputError(
            f"{key}={workers}: each needs {cpus_per_worker:g} CPUs and {gpus_per_worker:g} GPUs of one node, and "
            f"{place} room for {fit}{where}; at most {_that_fit(fit)}"
        )
    if not here and not gpus_per_worker and (unused := most.total()["GPU"]):
        log.warning("trains on CPUs, though the cluster can have %g GPUs; train.gpus_per_worker=1 uses them", unused)
    return most


def gather(config: Config) -> None:
    """Wait for the hosts of a cluster file that lists them and that have not joined: the whole job would go without
    them.

    It ends when the cluster has been up for as long as any node is waited for; the job then continues with a warning.
    """
    hosts = listed(launched_plan() or {})
    if not hosts or cluster_address(config) is None:
        return
    with running_ray(config):  # joins, starts nothing
        absent = wait_for(hosts, sys.modules["ray"].nodes, max(0.0, placement_seconds() - up_for()))
    if absent:
        log.warning("%s; continuing with the available nodes", joined(hosts, absent))


def _that_fit(count: int) -> str:
    return f"{count} {'worker fits' if count == 1 else 'workers fit'}"


def capacity(config: Config | None = None) -> Capacity:
    """The nodes that there can be: of the Ray this process is connected to, else of the one that `config` means.

    A launched cluster can become what its file allows. A machine, and a cluster whose file says nothing of what its
    nodes have, are what they are.
    """
    ray, config = sys.modules.get("ray"), config or Config()  # not imported: not connected
    connected = ray is not None and ray.is_initialized()
    if not connected and cluster_address(config) is None:
        visible = float(config.gpus if config.gpus is not None else len(gpus()))
        return Capacity((Kind(float(config.cpus or usable_cores() + 1), visible),))
    most = planned({} if connected and started_here() else launched_plan() or {})
    if any(most.total().values()):
        return most
    with running_ray(config):  # joins, starts nothing
        return living(sys.modules["ray"].nodes())


def on_every_node(function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    """What a function that workers can import returns on each living node of a running cluster, by node address.

    Nodes that leave meanwhile are left out. Raises PlacementError if one that stays does not answer in time.
    """
    import ray
    from ray.exceptions import RayError, RayTaskError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    task: Any = ray.remote(num_cpus=0)(function)
    asked = {
        (node["NodeID"], node["NodeManagerAddress"]): task.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote(*arguments)
        for node in ray.nodes()
        if node["Alive"]
    }
    answers = {}
    for (node, host), answer in asked.items():
        try:
            answers[host] = ray.get(answer, timeout=ANSWER_SECONDS)
        except RayTaskError:
            raise
        except RayError:
            if node in {each["NodeID"] for each in ray.nodes() if each["Alive"]}:
                line = f"node {host} did not answer in {ANSWER_SECONDS:g} s, though it is up; see `ray status`"
                raise PlacementError(line) from None
    return answers


def check_shared(workspace: str) -> None:
    """On a running cluster: refuse a local workspace that some node cannot see, by a marker file. Raises InputError."""
    import ray

    root = Workspace.open(workspace).root
    if not root.is_local or sum(node["Alive"] for node in ray.nodes()) < 2:
        return
    marker = f"marker-{uuid.uuid4().hex[:8]}"
    root.write_bytes(marker, b"")
    try:
        blind = [host for host, seen in on_every_node(os.path.exists, str(root.local(marker))).items() if not seen]
    finally:
        root.delete(marker)
    if blind:
        raise InputError(f"--workspace {workspace}: node {blind[0]} does not see this folder; name an s3:// address")
