"""The part of a sweep in the process of a trial: the call of its function, and the progress that it reports."""

import contextlib
import json
import platform
import resource
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any

import ray
from ray import tune

from vse.cluster.gpu_faults import gpu_fault, has_assigned_gpu, is_assigned_gpu_missing
from vse.cluster.runtime import enter_trial, in_trial
from vse.display import progress
from vse.errors import CredentialsError, Diverged, InputError, PlacementError, StorageError, TakenOver, storage_failure
from vse.sweeps.progress import Epochs

Function = Callable[[dict[str, Any]], Mapping[str, Any]]

EPOCH, OBJECTIVE = "epoch", "objective"  # what schedulers read
# Keys that the driver reads
PAYLOAD, SO_FAR, SAID, EPOCHS, WAITED, PEAK = "vse", "so_far", "said", "epochs", "waited", "peak"
STAGE_SECONDS = 5.0  # between two reports of a stage that a trial runs before its training


class GpuFaultError(RuntimeError):
    """A GPU of the trial fails, whatever computes on it. Its text is one line.

    It leaves `run_function`, so that Tune ends the process: CUDA cannot be used in it again.
    """


def say(text: str, epochs: Epochs | None = None, waited: float = 0.0) -> None:
    """In a trial, show its current activity at the end of the job's progress line; does nothing elsewhere.

    Args:
        text: What it is doing.
        epochs: How far its training is, if it trains.
        waited: Seconds so far in which its workers had no resources.
    """
    if in_trial():
        tune.report(_message(text, epochs, waited))


def report_epoch(epochs: Epochs, objective: float, result: Mapping[str, Any], text: str, waited: float = 0.0) -> None:
    """Report the end of an epoch from within a trial, as `say` does. A scheduler may end the trial here by SystemExit.

    Args:
        epochs: How far its training is.
        objective: What the scheduler compares.
        result: The result of the trial if the scheduler ends it.
        text: What it is doing.
        waited: Seconds so far in which its workers had no resources.
    """
    if in_trial():
        so_far = {EPOCH: epochs.done, OBJECTIVE: objective, SO_FAR: json.dumps(dict(result), allow_nan=False)}
        tune.report({**so_far, **_message(text, epochs, waited)})


def _message(text: str, epochs: Epochs | None, waited: float) -> dict[str, Any]:
    counted = {} if epochs is None else {EPOCHS: [epochs.done, epochs.total, epochs.earlier]}
    return {SAID: text, WAITED: waited, PEAK: _peak(), **counted}


@contextlib.contextmanager
def _stages_reported() -> Generator[None]:
    """Report the stages of this process (extraction, parsing) to the driver while the body runs."""
    last = time.monotonic()

    def listen(label: str, unit: str, done: int, over: bool) -> None:
        nonlocal last
        if time.monotonic() - last >= STAGE_SECONDS:
            last = time.monotonic()
            say(f"{label}: {done} {unit}")

    progress.listeners.append(listen)
    try:
        yield
    finally:
        progress.listeners.remove(listen)


def run_function(config: dict[str, Any], function: Function) -> dict[str, Any]:
    """The function that Tune runs. It returns its result as JSON, so that Tune pickles none of our classes.

    Raises:
        GpuFaultError: A GPU fails. The last report has the cause.
        Exception: What the function raises, except for errors that the result states.
    """
    enter_trial()
    started = time.monotonic()
    where = {"node": ray.get_runtime_context().get_node_id(), "host": platform.node()}
    try:
        with _stages_reported():
            result = dict(function(dict(config["changes"])))
    except (InputError, PlacementError) as error:  # wrong input is reported once and not tried again
        sick = isinstance(error, CredentialsError) or (isinstance(error, InputError) and is_assigned_gpu_missing())
        return {PAYLOAD: json.dumps({"refused": str(error), "kind": type(error).__name__, "sick": sick, **where})}
    except Diverged as error:
        return {PAYLOAD: json.dumps({"diverged": str(error)})}
    except TakenOver as error:  # a StorageError, but no fault of a disk: a retry continues what the other job trained
        return {PAYLOAD: json.dumps({"taken_over": str(error)})}
    except Exception as error:
        if line := gpu_fault(error):
            gpu = f"the GPU of {where['host']}" if has_assigned_gpu() else "the GPU of a worker"
            fault = GpuFaultError(f"{gpu} fails: {line}")
            payload = {"refused": str(fault), "kind": GpuFaultError.__name__, "sick": True, **where}
            tune.report({PAYLOAD: json.dumps(payload)})
            raise fault from error
        if line := storage_failure(error):  # a full disk is not tried again either
            return {PAYLOAD: json.dumps({"refused": line, "kind": StorageError.__name__, "sick": True, **where})}
        raise
    payload = {"result": result, "seconds": time.monotonic() - started, **where}
    return {PAYLOAD: json.dumps(payload, allow_nan=False)}


def _peak() -> float:
    """The most memory that this process has had, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
