"""Processes: the only caller of ray.init, and what must be decided before a process does any work.

On one machine a job starts its own small Ray, on loopback, and ends it. On a launched cluster (`ray submit`, or
RAY_ADDRESS) it joins the one that runs and leaves it running.
"""

import contextlib
import functools
import logging
import os
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vse.cluster import ray_private
from vse.cluster.capacity import LAUNCHED, launched_plan, planned
from vse.cluster.liveness import check_answers, watched
from vse.config import knob
from vse.display.escaping import one_line
from vse.errors import InputError, PlacementError, first_line
from vse.storage.files import LOGS_STAY, scratch_folder
from vse.tracking.prometheus import show_progress
from vse.workspace.provenance import gpus, usable_cores

log = logging.getLogger(__name__)
_START_SECONDS = 120.0  # that Ray may take to start on an overloaded machine, instead of its own 30

LIFECYCLE, SPOT = "vse.lifecycle", "spot"  # label of worker types in cluster files: on-demand, or that they may vanish
_TRAIN_NODES = "VSE_TRAIN_NODES"  # tells processes of a job, on whichever node, what `train_nodes` is to say
_DETACHED = frozenset({"local", ""})
Cluster = Callable[[], contextlib.AbstractContextManager[object]]  # gives a running Ray
_PLACEMENT = "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"
_started_here = False  # whether the Ray of this process is its own
_in_trial = False  # whether this process is that of trials of a sweep


@dataclass(frozen=True, kw_only=True, slots=True)
class Config:
    """The keys of a job below `ray.`: which cluster to join, and what to offer if Ray is started here."""

    address: str = knob("", "cluster to join; empty: RAY_ADDRESS or the launched cluster, else start one; local: start")
    cpus: int | None = knob(None, "CPUs to offer if Ray is started here; none: the usable cores and one more", low=1)
    gpus: int | None = knob(None, "GPUs to offer if Ray is started here; none: all visible ones", low=0)
    threads: int = knob(1, "threads of each process", low=1)
    store_mib: int | None = knob(
        None,
        "MiB of shared memory for objects if Ray is started here; none: 1024, or less if there is less",
        low=80,
    )
    ship_code: bool = knob(False, "send the package with the job instead of using what the nodes have installed")
    shared_workspace: bool = knob(False, "the local workspace path is NFS, also on nodes that join later")


def cluster_address(config: Config) -> str | None:
    """Address of the cluster this job belongs to, None if it starts its own Ray."""
    if config.address == "local":
        return None
    if config.address:
        return config.address
    address = os.environ.get("RAY_ADDRESS", "")
    if address not in _DETACHED:
        return address
    return "auto" if Path(LAUNCHED).expanduser().exists() else None


def cluster_of(config: Config) -> Cluster | None:
    """A function that joins the cluster; None if there is none, for work for which no local Ray is started."""
    return functools.partial(running_ray, config) if cluster_address(config) is not None else None


def prepare_environment(config: Config) -> dict[str, str]:
    """Set what Ray reads from the environment when it is imported, and return what its workers must have.

    Call it before anything imports ray; `running_ray` does. Values the user set stay, except thread counts.
    """
    here = cluster_address(config) is None
    small = here and usable_cores() <= 8
    wanted = {
        "RAY_AUTH_MODE": "disabled" if here or not (Path.home() / ".ray" / "auth_token").exists() else "token",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_DATA_PARQUET_FOOTER_NUM_ACTORS": "1" if small else "8",
        "RAY_CHDIR_TO_TRIAL_DIR": "0",  # paths mean the same in a trial as outside
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # a task without GPUs does not lose sight of them; no warning either
        _PLACEMENT: "120" if here else "900",  # an autoscaler needs minutes for a node
        "TUNE_DISABLE_SIGINT_HANDLER": "1",  # an interrupt ends the job, it does not become a short sweep
        "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # the journal is the log
        "RAY_AIR_NEW_OUTPUT": "0",
        # How long an actor may take to let go of a trial that a scheduler ended before it is given the next one: it has
        # a journal to write and a lease to give back, and a store that is away is asked for minutes. Tune's 2 s are not
        # enough, and it tells nobody of the trial that came too early.
        "TUNE_FUNCTION_THREAD_TIMEOUT_S": "600",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",  # or matrix products on a GPU differ from run to run
        # under `uv run` Ray would have uv make the environment again for every worker, with a PYTHONPATH of its own
        "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    }
    if not here:
        # Ten tries of 5 s for the credentials of an instance profile, not one of 1 s: a busy node answers late, and
        # without credentials a job ends. Off a cluster that only has people wait for the line.
        wanted |= {"AWS_METADATA_SERVICE_TIMEOUT": "5", "AWS_METADATA_SERVICE_NUM_ATTEMPTS": "10"}
    if here:
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # on Linux too: stay on loopback (see _start)
    for name, value in wanted.items():
        os.environ.setdefault(name, value)
    workers = {name: os.environ[name] for name in wanted}
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = workers[name] = str(config.threads)
    # no tracking address, which may hold a password: only the job itself ships, and Ray's own logs have this table
    for name in ("VSE_CACHE", "VSE_CACHE_GIB", "AWS_REGION", "AWS_DEFAULT_REGION"):
        if name in os.environ:
            workers[name] = os.environ[name]
    if steady := steady_nodes(config, gpus=1):
        os.environ.setdefault(_TRAIN_NODES, steady[LIFECYCLE])
        workers[_TRAIN_NODES] = os.environ[_TRAIN_NODES]
    if here:
        # workers on this machine import the package from where this process has it, installed or not
        package = str(Path(__file__).resolve().parents[2])
        paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
        if package not in paths:
            os.environ["PYTHONPATH"] = os.pathsep.join([package, *paths])
    return workers


@contextlib.contextmanager
def running_ray(config: Config | None = None) -> Generator[int]:
    """A Ray to work with while the body runs, as its number of nodes; ended afterwards only if it was started here.

    Raises InputError when the cluster to join does not answer. A Ray this process already uses is used as it is.
    """
    config = config or Config()
    address = cluster_address(config)
    workers = prepare_environment(config)
    show_progress()
    import ray

    if ray.is_initialized():
        yield _num_nodes()
        return
    quiet_logging()
    ray_private.warn_of_version()
    ray_private.apply_uv_setting()
    handlers = _signal_handlers()
    with _started(config) if address is None else contextlib.nullcontext():
        if address is not None:
            _join(address, config, workers)
        for number, handler in handlers.items():  # ray.init puts its own in their place
            signal.signal(number, handler)
        try:
            raylet = ray_private.raylet_socket()
            with contextlib.nullcontext() if raylet is None else watched(raylet):
                yield _num_nodes()
        finally:
            ray.shutdown()


@contextlib.contextmanager
def _started(config: Config) -> Generator[None]:
    """A Ray of this process. Its logs are kept for a while if the body raises."""
    # short: socket paths hold 107 characters
    with scratch_folder("ray", root=Path("/tmp"), left_after=LOGS_STAY, keep_failed=True) as scratch:
        try:
            _start(config, scratch)
            yield
        except BaseException:
            log.warning("kept Ray's logs of this run in %s", scratch)
            raise


def _start(config: Config, scratch: Path) -> None:
    """Start Ray. Raises PlacementError if its processes are not up after `_START_SECONDS`."""
    import ray

    global _started_here
    _started_here = True
    options = ray_private.loopback_options(scratch / "r")  # Ray makes it writable by everybody, `scratch` is private
    try:
        with ray_private.patient_start(_START_SECONDS):
            ray.init(
                address="local",
                num_cpus=config.cpus or usable_cores() + 1,  # room of a core: actors must not starve what feeds them
                num_gpus=config.gpus if config.gpus is not None else len(gpus()),
                object_store_memory=(config.store_mib or _store_mib()) * 2**20,
                include_dashboard=False,
                log_to_driver=False,
                logging_level=logging.ERROR,
                **options,
            )
    except Exception as error:
        if "timed out during startup" not in str(error):
            raise
        line = f"Ray did not start within {_START_SECONDS:g} s; is this machine overloaded?"
        raise PlacementError(line) from None


def _store_mib(shared_memory: Path = Path("/dev/shm")) -> int:
    """Limit of the object store in MiB. It is no reservation: pages are allocated when objects are stored.

    With room for fewer than some ten shards Ray Data holds extraction back: at 256 MiB to a third of its rate.
    """
    if not shared_memory.is_dir():  # macOS
        return 1024
    return min(1024, max(256, shutil.disk_usage(shared_memory).free // 2**21))


def _join(address: str, config: Config, workers: dict[str, str]) -> None:
    import ray
    from ray.exceptions import AuthenticationError

    global _started_here
    _started_here = False
    environment: dict[str, Any] = {"env_vars": workers}
    if config.ship_code:
        environment["py_modules"] = [str(Path(__file__).resolve().parents[1])]
    from_env = os.environ.get("RAY_ADDRESS", "")
    from_variable = from_env not in _DETACHED and config.address in ("", "auto")  # Ray reads it for `auto` as well
    named = f"$RAY_ADDRESS={from_env}" if from_variable else f"ray.address={address}"
    try:
        check_answers(from_env if from_variable else address, named)
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, runtime_env=environment)
    except InputError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        text = f"{named}: no cluster answers ({first_line(error)})"
        if from_variable:
            text += "; unset RAY_ADDRESS, or set ray.address=local, to work without one"
        elif not config.address:
            text += f"; {LAUNCHED} names a cluster: remove this file if that was taken down, or set ray.address=local"
        raise InputError(text) from None
    except AuthenticationError as error:
        raise InputError(f"{named}: the cluster requires a token ({first_line(error)})") from None


def _num_nodes() -> int:
    import ray

    return sum(node["Alive"] for node in ray.nodes())


def _signal_handlers() -> dict[int, Any]:
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}


def steady_nodes(config: Config, gpus: float) -> dict[str, str] | None:
    """Labels of the nodes that ranks of one training belong on; None if any will do.

    A rank that vanishes takes all others back to the last checkpoint, so ranks with GPUs keep to nodes that stay, where
    the launched cluster has such.
    """
    if cluster_address(config) is None or not gpus:
        return None
    steady = {LIFECYCLE: "on-demand"}
    return steady if planned(launched_plan() or {}).total(steady)["GPU"] else None


def train_nodes(gpus: float) -> dict[str, str] | None:
    """What `steady_nodes` says, for processes on whichever node of a job that is connected to Ray."""
    wanted = os.environ.get(_TRAIN_NODES)
    return {LIFECYCLE: wanted} if wanted and gpus else None


def placement_seconds() -> float:
    """How long workers of a training may wait for their places; Ray Train reads the same variable."""
    return float(os.environ.get(_PLACEMENT, "900"))


def started_here() -> bool:
    """Whether the Ray that this process is connected to is its own, which has no autoscaler."""
    return _started_here


def enter_trial() -> None:
    """Say that this process computes trials of a sweep from now on."""
    global _in_trial
    _in_trial = True


def in_trial() -> bool:
    """Whether this process computes trials of a sweep.

    Such a process requests no Ray workers for missing stages, because running trials may hold all resources.
    """
    return _in_trial


def num_gpus() -> int:
    """GPUs that this process may compute on: those of the machine that it sees, or that Ray gave it."""
    ray = sys.modules.get("ray")  # not imported: not a worker of one
    assigned = ray.get_runtime_context().get_accelerator_ids() if ray is not None and ray.is_initialized() else {}
    return max(len(gpus()), len(assigned.get("GPU", ())))


def set_threads(count: int) -> None:
    """Use `count` threads for the arithmetic of this process; more would fight with its neighbours."""
    import torch

    os.environ["OMP_NUM_THREADS"] = str(count)
    torch.set_num_threads(count)
    with contextlib.suppress(RuntimeError):  # can be said once, before the first parallel work
        torch.set_num_interop_threads(count)


def set_up_logging() -> None:
    """Our messages as plain lines on stderr; warnings and worse of libraries only."""
    own = logging.getLogger("vse")
    own.setLevel(logging.INFO)
    if not own.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_OneLine("%(message)s"))
        own.addHandler(handler)
        own.propagate = False
    quiet_logging()


class _OneLine(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  (logging's name)
        return one_line(super().formatMessage(record))


def quiet_logging() -> None:
    """Libraries that narrate are asked for errors only, and what they say of each other's future is left out: users can
    do nothing about it, and tests fail at it. `python -W` shows it."""
    if not sys.warnoptions:
        warnings.filterwarnings("ignore", category=FutureWarning)
    for name in ("ray", "ray.data", "ray.tune", "ray.train", "mlflow", "alembic", "hyperopt", "urllib3", "botocore"):
        logging.getLogger(name).setLevel(logging.ERROR)
