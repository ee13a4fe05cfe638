"""One run elsewhere: on several workers through Ray Train, each within a process group, or in one Ray task."""

import contextlib
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.train import ControllerError, FailureConfig, ScalingConfig, TrainingFailedError, WorkerGroupError
from ray.train import RunConfig as TrainRunConfig
from ray.train.torch import TorchTrainer
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from vse.cluster import ray_private
from vse.cluster.memory_shortage import memory_failure
from vse.cluster.process_group import GroupConfig
from vse.cluster.runtime import placement_seconds, train_nodes
from vse.config import to_dict
from vse.errors import InputError, PlacementError, WorkersLostError, first_line
from vse.storage.files import scratch_folder
from vse.storage.folder import Folder
from vse.storage.lease import LeaseHandle
from vse.training.config import RunConfig
from vse.training.loop import PERMANENT_ERRORS
from vse.workspace import journal
from vse.workspace.layout import Workspace

ray_train = ray_private.train_internals()
RETRIES = 3  # workers are lost with spot instances; each retry continues from the checkpoint
LISTEN_SECONDS = 1.0
ABORT_SECONDS = 20.0  # for the workers of an interrupted training to end; later they end with Ray
# How long a worker waits for the others in a collective. Ray notices lost workers at once, so this limit is for slow
# ones: nodes that copy and parse a whole data set, or rank 0 while the store of a checkpoint does not answer. It must
# exceed the longest of these, not the length of a step.
COLLECTIVE_SECONDS = 4 * 3600

Report = Callable[[dict[str, float]], None]
Worker = Callable[[dict[str, Any]], tuple[str, str] | None]
"""Trains with the arguments of `worker_arguments`; returns (kind, text) of an error that a retry would repeat."""


def train_on_workers(
    worker: Worker,
    config: RunConfig,
    workspace: Workspace,
    name: str,
    parent: str,
    report: Report | None = None,
    *,
    lease: LeaseHandle | None = None,
) -> None:
    """Train to the end on `config.train.workers` workers, which are replaced if they are lost.

    The process must be connected to Ray.

    Args:
        worker: Runs in each worker with the result of `worker_arguments`. It returns (kind, text) of an error that a
            retry would repeat, or None.
        config: Of the run.
        workspace: Where the run is.
        name: Name of the run.
        parent: The run under which trackers nest this one; empty for none.
        report: Called in a thread with the numbers of each epoch in the run's journal, and with `waited`, the seconds
            in which workers had no resources. None: nothing listens.
        lease: This process's lock on the run; workers write nothing once it is lost.

    Raises:
        InputError, StorageError, Diverged: A worker raised it; there is no retry.
        PlacementError: The nodes for all workers did not start in time.
        WorkersLostError: Workers were lost too often, or torch finds no GPU on a worker that Ray gave one.
    """
    # Nothing reads Ray's own notes about a run. Ray's controller writes them on this node; on S3, a failed write would
    # end the training, while the workspace itself retries.
    with scratch_folder("train") as scratch:
        waited = Waited(scratch / "waited")
        trainer = _trainer(
            worker, config, worker_arguments(config, workspace, name, parent, lease), name, scratch, waited
        )
        with _listening(workspace.run(name), report, waited.seconds):
            try:
                refusal = trainer.fit().return_value
            except TrainingFailedError as error:
                if _timed_out(error):
                    raise _no_place(config) from None
                if loss := _loss(error):
                    raise _lost(config, loss) from None
                if isinstance(error, ControllerError) and isinstance(error.controller_failure, WorkersLostError):
                    raise error.controller_failure from None
                raise
            except (KeyboardInterrupt, SystemExit):
                trainer.abort()
                raise
    _raise_again(refusal)


def _trainer(
    worker: Worker, config: RunConfig, arguments: dict[str, Any], name: str, scratch: Path, waited: "Waited"
) -> "_Trainer":
    gpus = config.train.gpus_per_worker
    return _Trainer(
        worker,
        train_loop_config=arguments,
        scaling_config=ScalingConfig(
            num_workers=config.train.workers,
            use_gpu=gpus > 0,
            resources_per_worker={"CPU": config.train.threads, **({"GPU": gpus} if gpus else {})},
            label_selector=train_nodes(gpus),
        ),
        torch_config=GroupConfig(backend="nccl" if gpus else "gloo", timeout_s=COLLECTIVE_SECONDS),
        run_config=TrainRunConfig(
            name=name,
            storage_path=str(scratch),
            callbacks=[waited],
            failure_config=FailureConfig(max_failures=RETRIES, controller_failure_limit=RETRIES),
        ),
    )


class _Policy(ray_train.DefaultFailurePolicy):
    """Ray Train's policy without retries if workers got no resources in time: each retry would wait as long again."""

    def make_decision(self, training_failed_error: TrainingFailedError) -> Any:
        return (
            ray_train.FailureDecision.RAISE
            if _timed_out(training_failed_error)
            else super().make_decision(training_failed_error)
        )


def _timed_out(error: TrainingFailedError) -> bool:
    return isinstance(error, ControllerError) and isinstance(
        error.controller_failure, ray_train.WorkerGroupStartupTimeoutError
    )


class Waited(ray_train.WorkerGroupCallback):
    """Writes to a file, in Ray Train's controller on the driver's node, how long workers waited for resources."""

    def __init__(self, file: Path) -> None:
        self.file, self.since = file, 0.0

    def before_worker_group_start(self, worker_group_context: Any) -> None:
        self.since = time.monotonic()

    def before_init_train_context(self, workers: list[Any]) -> dict[str, list[Any]]:
        """Their processes have just started."""
        with contextlib.suppress(OSError):  # a full disk is reported elsewhere
            self.file.write_text(str(self.seconds() + time.monotonic() - self.since))
        return {}

    def seconds(self) -> float:
        """Seconds over all starts of the workers so far; may be called in any process."""
        try:
            return float(self.file.read_text())
        except (OSError, ValueError):  # missing, or being written
            return 0.0


def _loss(error: TrainingFailedError) -> Exception | None:
    """The error by which a worker or its node was lost; None if a worker raised an error."""
    if isinstance(error, ControllerError):
        failure = error.controller_failure
        return failure if isinstance(failure, ray_train.WorkerGroupStartupFailedError) else None
    failures = error.worker_failures.values() if isinstance(error, WorkerGroupError) else ()
    kinds = ray_train.WorkerHealthCheckFailedError, ray_train.WorkerHealthCheckTimeoutError
    loss = next((each for each in failures if isinstance(each, kinds)), None)  # others fail as a consequence
    return getattr(loss, "health_check_failure", loss)


class _Trainer(TorchTrainer):  # pyrefly: ignore[invalid-inheritance]  # of either version of Ray Train
    """Uses `_Policy`, and leaves Ctrl-C to the job: Ray Train's own handler would end it silently with status 1."""

    controller: Any = None

    def _initialize_and_run_controller(self, **settings: Any) -> Any:
        policy = _Policy(settings["failure_policy"].failure_config)
        return super()._initialize_and_run_controller(**{**settings, "failure_policy": policy})

    def _register_sigint_handler(self, controller: Any) -> None:
        self.controller = controller  # not called if a thread, as in a trial, calls `fit`

    def abort(self) -> None:
        """End the workers, as Ray Train's handler does."""
        if self.controller is not None:
            with contextlib.suppress(RayError):  # it ends without an answer
                ray.get(self.controller.abort.remote(), timeout=ABORT_SECONDS)


def train_in_task(
    worker: Worker,
    config: RunConfig,
    workspace: Workspace,
    name: str,
    parent: str,
    report: Report | None = None,
    *,
    lease: LeaseHandle | None = None,
) -> None:
    """Train with one worker in a Ray task, on a node that has the GPUs which this process lacks.

    The process must be connected to Ray. If the task is lost with its node or process, it is repeated and continues
    from the checkpoint.

    Args:
        worker: As for `train_on_workers`.
        config: Of the run.
        workspace: Where the run is.
        name: Name of the run.
        parent: The run under which trackers nest this one; empty for none.
        report: As for `train_on_workers`, without `waited`.
        lease: As for `train_on_workers`.

    Raises:
        InputError, StorageError, Diverged: The worker raised it; there is no retry.
        PlacementError: No node with the GPUs started in time.
        WorkersLostError: The worker was lost too often.
    """
    train = config.train
    arguments, labels = worker_arguments(config, workspace, name, parent, lease), train_nodes(train.gpus_per_worker)
    task: Any = ray.remote(worker)
    with _listening(workspace.run(name), report):
        for losses in range(RETRIES + 1):
            place = placement_group(
                [{"CPU": train.threads, "GPU": train.gpus_per_worker}],
                bundle_label_selector=[labels or {}],
            )
            try:
                if not place.wait(placement_seconds()):
                    raise _no_place(config)
                there = task.options(
                    num_cpus=train.threads,
                    num_gpus=train.gpus_per_worker,
                    max_retries=0,
                    scheduling_strategy=PlacementGroupSchedulingStrategy(place),
                )
                return _raise_again(ray.get(there.remote(arguments)))
            except RayTaskError:
                raise
            except RayError as error:  # its node or process is lost; the next attempt continues from the checkpoint
                if losses == RETRIES:
                    raise _lost(config, error) from None
            finally:
                remove_placement_group(place)


def worker_arguments(
    config: RunConfig, workspace: Workspace, name: str, parent: str, lease: LeaseHandle | None
) -> dict[str, Any]:
    """The arguments of a worker as plain data, apart from the lease, which can be pickled.

    Args:
        config: Of the run.
        workspace: Sent by its address, together with what the driver read outside of it.
        name: Name of the run.
        parent: The run under which trackers nest this one; empty for none.
        lease: The driver's lock on the run; None: the worker writes without one.
    """
    place = {"workspace": workspace.root.uri, "external": workspace.external.answers}
    return {"config": to_dict(config), **place, "run": name, "parent": parent, "lease": lease}


def _no_place(config: RunConfig) -> PlacementError:
    train = config.train
    labels = "".join(f" labelled {name}: {value}" for name, value in (train_nodes(train.gpus_per_worker) or {}).items())
    return PlacementError(
        f"train.workers={train.workers}: no nodes{labels} with {train.threads} CPUs and "
        f"{train.gpus_per_worker:g} GPUs for each worker started in time; see `ray status`"
    )


def _lost(config: RunConfig, error: Exception) -> WorkersLostError:
    if line := memory_failure(error):
        return WorkersLostError(f"train.workers={config.train.workers}: {line}")
    return WorkersLostError(
        f"train.workers={config.train.workers}: workers were lost again after {RETRIES} replacements "
        f"({first_line(error)}); the logs of their nodes may say why"
    )


def _raise_again(refusal: tuple[str, str] | None) -> None:
    """Raise the error that a worker returned."""
    if refusal is not None:
        kind, text = refusal
        raise next(each for each in PERMANENT_ERRORS if each.__name__ == kind)(text)


@contextlib.contextmanager
def _listening(folder: Folder, report: Report | None, waited: Callable[[], float] = lambda: 0.0) -> Generator[None]:
    listener = Listener(folder, report, waited) if report is not None else None
    try:
        yield
    finally:
        if listener is not None:
            listener.close()


class Listener:
    """Reports epochs that appear in a run's journal after the listener was created.

    waited: returns the seconds so far in which workers had no resources.
    """

    def __init__(self, folder: Folder, report: Report, waited: Callable[[], float] = lambda: 0.0) -> None:
        self.folder, self.report, self.waited = folder, report, waited
        self.reported = max(self._epochs(), default=0)
        self.over = threading.Event()
        self.thread = threading.Thread(target=self._listen, daemon=True)
        self.thread.start()

    def close(self) -> None:
        """Report the remaining epochs and stop."""
        self.over.set()
        self.thread.join()

    def _listen(self) -> None:
        over = False
        while not over:
            over = self.over.wait(LISTEN_SECONDS)
            with contextlib.suppress(OSError, InputError):  # the store does not answer: the epochs are reported later
                self._report_new()

    def _report_new(self) -> None:
        for epoch, numbers in sorted(self._epochs().items()):
            if epoch > self.reported:
                self.reported = epoch
                self.report({**numbers, "epoch": epoch, "waited": self.waited()})

    def _epochs(self) -> dict[int, dict[str, float]]:
        if not self.folder.exists(journal.FILE_NAME):
            return {}
        epochs: dict[int, dict[str, float]] = {}
        state = journal.parse(self.folder.read_bytes(journal.FILE_NAME))
        for (key, step), (value, _) in state.metrics.items():
            if key.startswith(("train/", "val/")):
                epochs.setdefault(step, {})[key] = value
        return epochs
