"""What runs in the process of a trial: the call of its function, and the progress that it reports."""

import contextlib
import json
import platform
import resource
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import ray
from ray import tune

from vse.cluster.runtime import enter_trial, in_trial
from vse.display import progress
from vse.errors import CredentialsError, Diverged, InputError, PlacementError, StorageError, TakenOver, storage_failure
from vse.sweeps.progress import Epochs

Function = Callable[[dict[str, Any]], Mapping[str, Any]]

EPOCH, OBJECTIVE = "epoch", "objective"  # what schedulers read
# What the driver reads
PAYLOAD, SO_FAR, SAID, EPOCHS, WAITED, PEAK = "vse", "so_far", "said", "epochs", "waited", "peak"
STAGE_SECONDS = 5.0  # between two reports of a stage that a trial runs before it trains


def say(text: str, epochs: Epochs | None = None, waited: float = 0.0) -> None:
    """From within a trial: what it is doing, for the end of the job's progress line. Elsewhere nothing happens.

    epochs: how far its training has come, if it trains. waited: seconds so far in which its workers had no place.
    """
    if in_trial():
        tune.report(_said(text, epochs, waited))


def tell(epochs: Epochs, objective: float, result: Mapping[str, Any], text: str, waited: float = 0.0) -> None:
    """From within a trial: where it stands after an epoch, as `say` does. A scheduler may end the trial here, by
    raising SystemExit; then `result` is what it found."""
    if in_trial():
        told = {EPOCH: epochs.done, OBJECTIVE: objective, SO_FAR: json.dumps(dict(result), allow_nan=False)}
        tune.report({**told, **_said(text, epochs, waited)})


def _said(text: str, epochs: Epochs | None, waited: float) -> dict[str, Any]:
    counted = {} if epochs is None else {EPOCHS: [epochs.done, epochs.total, epochs.earlier]}
    return {SAID: text, WAITED: waited, PEAK: _peak(), **counted}


@contextlib.contextmanager
def _stages_told() -> Iterator[None]:
    """While the body runs, the stages of this process (extraction, parsing) are told to the driver as what they are."""
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
    """The Tune function. What it returns crosses process borders as text, so no type of ours has to."""
    enter_trial()
    started = time.monotonic()
    where = {"node": ray.get_runtime_context().get_node_id(), "host": platform.node()}
    try:
        with _stages_told():
            result = dict(function(dict(config["changes"])))
    except (InputError, PlacementError) as error:  # wrong input is no accident: it is said once and not tried again
        sick = isinstance(error, CredentialsError) or (isinstance(error, InputError) and _gpu_is_gone())
        return {PAYLOAD: json.dumps({"refused": str(error), "kind": type(error).__name__, "sick": sick, **where})}
    except Diverged as error:
        return {PAYLOAD: json.dumps({"diverged": str(error)})}
    except TakenOver as error:  # a StorageError, but of no disk: whoever tries again finds what the other one trained
        return {PAYLOAD: json.dumps({"taken_over": str(error)})}
    except Exception as error:
        if line := storage_failure(error):  # nor is a full disk
            return {PAYLOAD: json.dumps({"refused": line, "kind": StorageError.__name__, "sick": True, **where})}
        raise
    told = {"result": result, "seconds": time.monotonic() - started, **where}
    return {PAYLOAD: json.dumps(told, allow_nan=False)}


def _peak() -> float:
    """The most memory that this process has had, in GiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _gpu_is_gone() -> bool:
    """Whether this trial was given a GPU that torch does not find, as where a driver has died."""
    if not ray.get_runtime_context().get_assigned_resources().get("GPU"):
        return False
    import torch  # slow to import, and in memory where a training said so

    return not torch.cuda.is_available()
