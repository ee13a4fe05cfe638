"""Everything that this project uses of Ray's private interface. No other module imports a private name of Ray.

Private names may change with every release of Ray: `CHECKED` is the release they were read in. With another one a job
warns, and a name that is gone ends it by one line. `tests/unit/cluster/test_ray_private.py` says what to do then.
"""

import importlib
import logging
import os
import re
from collections.abc import Callable, Mapping
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
    f"{_CONSTANTS}.ENABLE_RAY_CLUSTER",
    f"{_CONSTANTS}.RAY_ENABLE_UV_RUN_RUNTIME_ENV",
    "ray._private.worker.global_worker",
    "ray._private.state.state",
    "ray.core.generated.gcs_pb2.PlacementGroupTableData",
    "ray.tune.execution.class_cache.ENV_VARS_TO_PROPAGATE",
    "ray.autoscaler._private.util.prepare_config",
    "ray.autoscaler._private.util.validate_config",
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
    """One warning if another release of Ray is installed than the private names were read in."""
    if _version() != CHECKED:
        log.warning("Ray %s is installed, and this project was checked with %s (constraints.txt)", _version(), CHECKED)


def train_internals() -> Any:
    """Ray Train's classes of `TRAIN_NAMES` by their own names: ends of worker groups, and what decides on retries."""
    return SimpleNamespace(**{name: _private(name) for name in map(_last, TRAIN_NAMES)})


def address_of_cluster() -> str:
    """The address that `ray.init(address="auto")` would join. Raises ConnectionError if there is no cluster."""
    return _private("canonicalize_bootstrap_address")("auto") or ""


def apply_uv_setting() -> None:
    """Make Ray read $RAY_ENABLE_UV_RUN_RUNTIME_ENV again: it does so at import, which may have been earlier, since a
    search space imports Tune."""
    _private("RAY_ENABLE_UV_RUN_RUNTIME_ENV")
    wanted = os.environ.get("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0").lower() in ("1", "true")
    importlib.import_module(_CONSTANTS).RAY_ENABLE_UV_RUN_RUNTIME_ENV = wanted  # type: ignore[attr-defined]


def loopback_options(folder: Path) -> dict[str, Any]:
    """Arguments of `ray.init` for a Ray that only this machine reaches, with its files below a folder.

    Ray replaces 127.0.0.1 by the machine's address and listens on all of them, unless it knows that there are no other
    nodes. The variable for that is read at import, which may have been earlier.
    """
    _private("ENABLE_RAY_CLUSTER")
    importlib.import_module(_CONSTANTS).ENABLE_RAY_CLUSTER = False  # type: ignore[attr-defined]
    return {"_temp_dir": str(folder), "_node_ip_address": "127.0.0.1"}


def raylet_socket() -> Path | None:
    """The socket of the node process that this driver is connected to; None if that runs on another machine."""
    node = _private("global_worker").node  # None with ray://
    socket = Path(node.raylet_socket_name) if node is not None else None
    return socket if socket is not None and socket.exists() else None


def remove_orphaned_placement_groups() -> int:
    """Remove this job's placement groups whose makers have died; returns how many there were.

    The resources of a training belong to a process of Ray Train. If it dies, with its trial, Ray keeps them as long as
    the job lives. Ray Train's own cleaner asks the dashboard, and does not learn of the death if none runs, as on one
    machine. It also ignores resources that did not come yet, for which an autoscaler keeps adding nodes. The retried
    trial would wait for what its first attempt holds (ray-project/ray#54305).
    """
    import ray
    from ray.util.placement_group import PlacementGroup, remove_placement_group

    table = _private("PlacementGroupTableData")
    job, removed = ray.get_runtime_context().get_job_id(), 0
    for text in _private("state")._connect_and_get_accessor().get_placement_group_table():
        group = table.FromString(text)
        if group.creator_job_id.hex() != job or group.is_detached or group.state == table.REMOVED:
            continue
        if group.creator_actor_dead and not ray.ActorID(group.creator_actor_id).is_nil():  # nil: made by the driver
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
    """What `ray up` checks of a cluster file. Raises whatever it raises."""
    prepare: Callable[[Any], Any] = _private("prepare_config")
    _private("validate_config")(prepare(config))


def says_node_lost(error: str) -> bool:
    """Whether the text of a failed actor says that its node was lost.

    Tune keeps the exception as a pickle, which is not read. An exception of the trial's own code has a traceback.
    """
    return "Traceback" not in error and bool(re.search("is unavailable:|its node has died", error))
