"""The capacity of a machine or cluster, and the refusal of requests beyond it before any Ray process starts."""

import contextlib
import logging
import os
import sys
import uuid
from collections.abc import Callable, Generator, Mapping
from typing import Any

from vse.cluster.capacity import Capacity, NodeKind, joined, launched_plan, listed, living, planned, up_for, wait_for
from vse.cluster.runtime import Config, cluster_address, placement_seconds, running_ray, started_here
from vse.errors import InputError, PlacementError
from vse.storage.folder import Folder
from vse.training.config import check_gpus
from vse.workspace.layout import Workspace
from vse.workspace.provenance import gpus, usable_cores

log = logging.getLogger(__name__)

ANSWER_SECONDS = 120.0  # timeout for a task on one node


def preflight(
    workspace: str,
    config: Config,
    *,
    workers: int = 1,
    cpus_per_worker: float = 1,
    gpus_per_worker: float = 0,
    labels: Mapping[str, str] | None = None,
    decoders: int = 0,
    key: str = "workers",
) -> None:
    """Check, before any Ray process starts, that workers could run and that their nodes can use the workspace.

    The largest size that an autoscaler may reach counts.

    Args:
        workspace: URI of the workspace; it must be writable from every node.
        config: options of Ray.
        workers: number of workers at the same time.
        cpus_per_worker: CPUs of each.
        gpus_per_worker: GPUs of each.
        labels: of the nodes for workers.
        decoders: tasks of one CPU each for a worker; one of them must fit next to the workers, and the others may wait.
        key: the configuration key of `workers`, for messages.

    Raises:
        InputError: naming `key`, `gpus_per_worker`, `threads` or `decoders`, and what there is.
    """
    Workspace.open(workspace).check_writable()
    gather(config)
    most = check_room(
        config,
        workers=workers,
        cpus_per_worker=cpus_per_worker,
        gpus_per_worker=gpus_per_worker,
        labels=labels,
        decoders=decoders,
        key=key,
    )
    local = Workspace.open(workspace).root.is_local
    if most.nodes > 1 and local and not config.shared_workspace:
        with running_ray(config) as num_nodes:
            if num_nodes > 1:
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
    decoders: int = 0,
    key: str = "workers",
) -> Capacity:
    """Check whether workers fit, without a workspace and before any Ray process starts.

    Args:
        config: options of Ray; they say whether this machine or a cluster is meant.
        workers: number of workers at the same time.
        cpus_per_worker: CPUs of each.
        gpus_per_worker: GPUs of each; 0 on a cluster with GPUs logs a warning.
        labels: labels that the nodes of workers must carry; None for any node.
        decoders: tasks of one CPU each for a worker; one of them must fit next to the workers.
        key: the configuration key of `workers`, for messages.

    Returns:
        The result of `capacity`.

    Raises:
        InputError: naming `key`, `gpus_per_worker`, `threads` or `decoders`, and what there is.
    """
    prefix = key.removesuffix("workers")
    check_gpus(workers, gpus_per_worker, prefix)
    is_local = cluster_address(config) is None
    most = capacity(config)
    place = "this machine has" if is_local else "the cluster can have"
    total, where = most.total(labels), "".join(f" on nodes labelled {k}: {v}" for k, v in (labels or {}).items())
    if gpus_per_worker and not total["GPU"]:
        advice = f"; leave {prefix}gpus_per_worker out to train on its CPUs" if is_local else ""
        raise InputError(
            f"{prefix}gpus_per_worker={gpus_per_worker:g}: a GPU is requested, but {place} none{where}{advice}"
        )
    for kind, each, one in (("GPU", gpus_per_worker, "gpus_per_worker"), ("CPU", cpus_per_worker, "threads")):
        if each > total[kind]:
            raise InputError(f"{prefix}{one}={each:g}: needs {each:g} {kind}s, but {place} {total[kind]:g}{where}")
        if workers * each > total[kind]:
            raise InputError(
                f"{key}={workers}: needs {workers * each:g} {kind}s, but {place} {total[kind]:g}{where}; "
                f"at most {_that_fit(int(total[kind] // each))}"
            )
    fit = most.room(cpus_per_worker, gpus_per_worker, labels)
    if workers > fit:
        raise InputError(
            f"{key}={workers}: each needs {cpus_per_worker:g} CPUs and {gpus_per_worker:g} GPUs of one node, but "
            f"{place} room for {fit}{where}; at most {_that_fit(fit)}"
        )
    taken, there = workers * cpus_per_worker, most.total()["CPU"]
    if decoders and there - taken < 1:
        raise InputError(
            f"{prefix}decoders={decoders}: needs a CPU next to the {taken:g} of the workers, but {place} {there:g}; "
            f"use fewer {prefix}threads, or {prefix}decoders=0"
        )
    if not is_local and not gpus_per_worker and (unused := most.total()["GPU"]):
        log.warning("training on CPUs, though the cluster can have %g GPUs; train.gpus_per_worker=1 uses them", unused)
    return most


def gather(config: Config) -> None:
    """Wait for listed hosts that have not joined, because later ones would not take part in the job.

    The wait ends when the cluster has been up for `placement_seconds`; the job then continues with a warning.
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
    """The largest capacity of the Ray this process is connected to, or else of the one in `config`.

    A launched cluster can grow to what its file allows. One machine, or a cluster whose file has no resources, has its
    present size.
    """
    ray, config = sys.modules.get("ray"), config or Config()  # not imported: not connected
    connected = ray is not None and ray.is_initialized()
    if not connected and cluster_address(config) is None:
        visible = float(config.gpus if config.gpus is not None else len(gpus()))
        return Capacity((NodeKind(float(config.cpus or usable_cores() + 1), visible),))
    most = planned({} if connected and started_here() else launched_plan() or {})
    if any(most.total().values()):
        return most
    with running_ray(config):  # joins, starts nothing
        return living(sys.modules["ray"].nodes())


def on_every_node(function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
    """Results of an importable function on every living node of a running cluster, by node address.

    Nodes that leave meanwhile are left out. Raises PlacementError if a living node does not answer in time.
    """
    import ray
    from ray.exceptions import RayError, RayTaskError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    task: Any = ray.remote(num_cpus=0)(function)
    pending = {
        (node["NodeID"], node["NodeManagerAddress"]): task.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote(*arguments)
        for node in ray.nodes()
        if node["Alive"]
    }
    results = {}
    for (node, host), result in pending.items():
        try:
            results[host] = ray.get(result, timeout=ANSWER_SECONDS)
        except RayTaskError:
            raise
        except RayError:
            if node in {each["NodeID"] for each in ray.nodes() if each["Alive"]}:
                line = f"node {host} did not answer in {ANSWER_SECONDS:g} s, though it is up; see `ray status`"
                raise PlacementError(line) from None
    return results


@contextlib.contextmanager
def marker(root: Folder) -> Generator[str]:
    """The path of an empty file in a local folder while the body runs: a node that sees it sees this folder."""
    name = f"marker-{uuid.uuid4().hex[:8]}"
    root.write_bytes(name, b"")
    try:
        yield str(root.local(name))
    finally:
        root.delete(name)


def check_shared(workspace: str) -> None:
    """Raise InputError if a node of a running cluster cannot see a local workspace, by a marker file."""
    import ray

    root = Workspace.open(workspace).root
    if not root.is_local or sum(node["Alive"] for node in ray.nodes()) < 2:
        return
    with marker(root) as path:
        seen_by = on_every_node(os.path.exists, path)
    if hosts := [host for host, seen in seen_by.items() if not seen]:
        raise InputError(f"--workspace {workspace}: node {hosts[0]} does not see this folder; name an s3:// address")
