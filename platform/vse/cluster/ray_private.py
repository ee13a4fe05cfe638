"""All uses of Ray's private interface. No other module imports a private name of Ray.

Private names may change with every release of Ray. With another release than `CHECKED` a job warns, and a missing name
ends it with one line. `tests/unit/cluster/test_ray_private.py` says what to do then.
"""

import contextlib
import importlib
import logging
import os
import re
import time
from collections.abc import Callable, Generator, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from vse.errors import InputError

log = logging.getLogger(__name__)

CHECKED = "2.60.0"
_CONSTANTS = "ray._private.ray_constants"
NAMES = (
    "ray._private.services.canonicalize_bootstrap_address",
    "ray._private.services.get_node",
    f"{_CONSTANTS}.ENABLE_RAY_CLUSTER",
    f"{_CONSTANTS}.RAY_ENABLE_UV_RUN_RUNTIME_ENV",
    "ray._private.worker.global_worker",
    "ray._private.state.state",
    "ray.core.generated.gcs_pb2.PlacementGroupTableData",
    "ray.tune.execution.class_cache.ENV_VARS_TO_PROPAGATE",
    "ray.autoscaler._private.util.prepare_config",
    "ray.autoscaler._private.util.validate_config",
    "ray.autoscaler._private.kuberay.node_provider.KubernetesHttpApiClient",
    "ray.autoscaler._private.kuberay.autoscaling_config._derive_autoscaling_config_from_ray_cr",
)
_TRAIN = "ray.train.v2._internal"
TRAIN_NAMES = (
    f"{_TRAIN}.exceptions.WorkerGroupStartupFailedError",
    f"{_TRAIN}.exceptions.WorkerGroupStartupTimeoutError",
    f"{_TRAIN}.exceptions.WorkerHealthCheckFailedError",
    f"{_TRAIN}.exceptions.WorkerHealthCheckTimeoutError",
    f"{_TRAIN}.execution.callback.WorkerGroupCallback",
    f"{_TRAIN}.execution.failure_handling.DefaultFailurePolicy",
    f"{_TRAIN}.execution.failure_handling.FailureDecision",
)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


_WHOLE = {_last(name): name for name in (*NAMES, *TRAIN_NAMES)}


def _private(attribute: str) -> Any:
    """One of `NAMES` or `TRAIN_NAMES` by its last part."""
    name = _WHOLE[attribute]
    module = name.rpartition(".")[0]
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError):
        raise InputError(
            f"Ray {_version()}: has no {name}, which Ray {CHECKED} has; install that release (constraints.txt)"
        ) from None


def _version() -> str:
    import ray

    return getattr(ray, "__version__", CHECKED)


@cache
def warn_of_version() -> None:
    """Warn once if another release of Ray is installed than `CHECKED`."""
    if _version() != CHECKED:
        log.warning("Ray %s is installed, and this project was checked with %s (constraints.txt)", _version(), CHECKED)


def train_internals() -> Any:
    """The classes of `TRAIN_NAMES` by their last names: errors of worker groups, and the policy of retries."""
    return SimpleNamespace(**{name: _private(name) for name in map(_last, TRAIN_NAMES)})


def address_of_cluster() -> str:
    """The address that `ray.init(address="auto")` would join. Raises ConnectionError if there is no cluster."""
    return _private("canonicalize_bootstrap_address")("auto") or ""


def apply_uv_setting() -> None:
    """Apply $RAY_ENABLE_UV_RUN_RUNTIME_ENV, which Ray reads at import; a search space may have imported Tune before."""
    _private("RAY_ENABLE_UV_RUN_RUNTIME_ENV")
    enabled = os.environ.get("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0").lower() in ("1", "true")
    constants: Any = importlib.import_module(_CONSTANTS)
    constants.RAY_ENABLE_UV_RUN_RUNTIME_ENV = enabled


def loopback_options(folder: Path) -> dict[str, Any]:
    """Arguments of `ray.init` for a Ray that listens on loopback only, with its files below a folder.

    Ray replaces 127.0.0.1 by the machine's address and listens on all addresses, unless clusters are disabled. Ray
    reads the variable for that at import, which may have been earlier.
    """
    _private("ENABLE_RAY_CLUSTER")
    constants: Any = importlib.import_module(_CONSTANTS)
    constants.ENABLE_RAY_CLUSTER = False
    return {"_temp_dir": str(folder), "_node_ip_address": "127.0.0.1"}


@contextlib.contextmanager
def patient_start(seconds: float) -> Generator[None]:
    """While the body starts Ray, its raylet has this long to register, instead of the 30 s that are fixed in Ray."""
    services, get_node = importlib.import_module("ray._private.services"), _private("get_node")
    end = time.monotonic() + seconds

    def wait_for_node(*arguments: Any, **options: Any) -> Any:
        while True:
            try:
                return get_node(*arguments, **options)
            except RuntimeError:  # not registered yet
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    services.get_node = wait_for_node  # pyrefly: ignore[missing-attribute]  # of a module
    try:
        yield
    finally:
        services.get_node = get_node  # pyrefly: ignore[missing-attribute]  # of a module


def raylet_socket() -> Path | None:
    """The socket of the raylet that this driver is connected to; None if that runs on another machine."""
    node = _private("global_worker").node  # None with ray://
    socket = Path(node.raylet_socket_name) if node is not None else None
    return socket if socket is not None and socket.exists() else None


def remove_orphaned_placement_groups() -> int:
    """Remove this job's placement groups whose creators have died; returns their number.

    The resources of a training belong to a process of Ray Train. If it dies with its trial, Ray keeps them until the
    job ends, and the retried trial would wait for them (ray-project/ray#54305). Ray Train's own cleaner needs the
    dashboard, which does not run on one machine. It also ignores pending resources, for which an autoscaler keeps
    adding nodes.
    """
    import ray
    from ray.util.placement_group import PlacementGroup, remove_placement_group

    table = _private("PlacementGroupTableData")
    job, removed = ray.get_runtime_context().get_job_id(), 0
    for text in _private("state")._connect_and_get_accessor().get_placement_group_table():
        group = table.FromString(text)
        if group.creator_job_id.hex() != job or group.is_detached or group.state == table.REMOVED:
            continue
        if group.creator_actor_dead and not ray.ActorID(group.creator_actor_id).is_nil():  # nil: created by the driver
            remove_placement_group(PlacementGroup(ray.PlacementGroupID(group.placement_group_id)))
            removed += 1
    if removed:
        log.info("released the resources of %d trainings whose trials were killed", removed)
    return removed


def keep_credentials_from_trials() -> None:
    """Stop Tune from copying the driver's AWS credentials into the runtime environment of trials, which Ray logs.

    Trials use the credentials of their node, as all other workers do: those of the environment in which Ray was
    started, or of an instance profile.
    """
    names: set[str] = _private("ENV_VARS_TO_PROPAGATE")
    names.difference_update([name for name in names if name.startswith("AWS_")])


def check_cluster_file(config: Mapping[str, Any]) -> None:
    """Run the checks of `ray up` on a cluster file; raises their exceptions."""
    prepare: Callable[[Any], Any] = _private("prepare_config")
    _private("validate_config")(prepare(config))


def plan_of_ray_cluster(resource: Mapping[str, Any]) -> dict[str, Any]:
    """What Ray's autoscaler makes of a RayCluster of KubeRay: a plan in the form of a completed cluster file."""
    return _private("_derive_autoscaling_config_from_ray_cr")(resource)


def ray_cluster_resource(name: str, namespace: str) -> dict[str, Any]:
    """A RayCluster as Kubernetes has it now, read with the account of the pod that this process runs in.

    Raises OSError if the account may not read it, or nothing answers.
    """
    return _private("KubernetesHttpApiClient")(namespace).get(f"rayclusters/{name}")


def says_node_lost(error: str) -> bool:
    """Whether the message of a failed actor means that its node was lost.

    Tune stores the exception as a pickle, which is not read. An exception of the trial's own code has a traceback.
    """
    return "Traceback" not in error and bool(re.search("is unavailable:|its node has died", error))
