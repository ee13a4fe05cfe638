"""Trial functions: Ray imports them by name in its workers."""

import os
import time
from pathlib import Path
from typing import Any

import ray
from ray.util import placement_group, remove_placement_group

from vse.errors import CredentialsError, Diverged, InputError, PlacementError, StorageError
from vse.sweeps.progress import Epochs
from vse.sweeps.trial_process import report_epoch, say


def square(changes: dict[str, Any]) -> dict[str, Any]:
    say(f"squaring {changes['x']}")
    return {"value": changes["x"] ** 2, "pid": os.getpid(), "threads": os.environ.get("OMP_NUM_THREADS")}


def bowl(changes: dict[str, Any]) -> dict[str, Any]:
    penalty = 0.0 if changes["schedule"] == "cosine" else 1.0
    return {"loss": (changes["alpha"] - 0.3) ** 2 + penalty}


def climb(changes: dict[str, Any]) -> dict[str, Any]:
    """Four epochs, each one better than that before; a scheduler hears of the first three."""
    curve: list[float] = []
    for epoch in range(1, 5):
        curve.append(changes["x"] + epoch - 1)
        if epoch < 4:
            report_epoch(Epochs(epoch, 4), curve[-1], {"curve": curve, "objective": curve[-1]}, f"epoch {epoch}")
    return {"curve": curve, "objective": curve[-1]}


def lets_go_slowly(changes: dict[str, Any], seconds: float, given: str = "") -> dict[str, Any]:
    """Climbs; where a scheduler ends it, its process has something to do for a while, as with a store that is away.

    given: how long Tune waits for that, in this process; empty: as the job says.
    """
    if given:
        os.environ["TUNE_FUNCTION_THREAD_TIMEOUT_S"] = given
    try:
        return climb(changes)
    except SystemExit:
        time.sleep(seconds)
        raise


def count(changes: dict[str, Any], folder: str) -> dict[str, Any]:
    """Leaves one file a call, so that a test sees how often a trial ran."""
    calls = len(list(Path(folder).glob(f"{changes['x']}-*")))
    Path(folder, f"{changes['x']}-{calls}").touch()
    if changes["x"] == "always":
        raise ValueError("no luck")
    if changes["x"] == "once" and calls == 0:
        raise ValueError("no luck at first")
    if changes["x"] == "dies" and calls == 0:
        os._exit(1)
    if changes["x"] == "diverges":
        raise Diverged("epoch 1, step 2: sent is nan; try a lower optim.lr")
    if changes["x"] == "refused":
        raise InputError("data.root=/nowhere: no such folder")
    if changes["x"] == "sick at first" and calls == 0:
        raise StorageError("/scratch: no space left on device")
    if changes["x"] == "sick twice" and calls < 2:
        raise StorageError("/scratch: no space left on device")
    if changes["x"] == "no credentials at first" and calls == 0:
        raise CredentialsError("s3://bucket/work: no AWS credentials")
    if changes["x"] == "full":
        raise StorageError("/data: no space left on device")
    if changes["x"] == "no place" or (changes["x"] == "no place at first" and calls == 0):
        raise PlacementError("train.workers=2: no nodes started in time")
    return {"calls": calls + 1}


def failing_gpu(changes: dict[str, Any], folder: str) -> dict[str, Any]:
    """The first call fails as with a GPU whose memory is broken; each leaves a file with the id of its process."""
    calls = len(list(Path(folder).iterdir()))
    Path(folder, f"{calls}").write_text(str(os.getpid()))
    if not calls:
        raise RuntimeError("CUDA error: uncorrectable ECC error encountered\nCUDA kernel errors might be reported")
    return {"calls": calls + 1}


def workers_without_place(changes: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Waits for places for two workers as Ray Train does, on nodes that are not there."""
    group = placement_group([{"CPU": 64.0}] * 2)
    try:
        return {"came": group.wait(seconds)}
    finally:
        remove_placement_group(group)


def two_epochs(changes: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Says after half of its work how much that was."""
    time.sleep(seconds / 2)
    say("epoch 1/2", Epochs(1, 2))
    time.sleep(seconds / 2)
    return {"value": changes["x"]}


def sleep(changes: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Work of a known length."""
    time.sleep(seconds)
    return {"value": changes["x"]}


def train(changes: dict[str, Any], preset: str, workspace: str, found: dict[str, str] | None = None) -> dict[str, Any]:
    """A training of a preset; how long it says that it took itself. found: as a sweep's driver tells its trials."""
    from vse import presets
    from vse.config import override
    from vse.stages.train import run_training
    from vse.workspace.layout import Workspace

    result = run_training(override(presets.preset(preset), changes), Workspace.open(workspace, found))
    return {"run": result.run, "seconds": result.seconds}


def assigned(changes: dict[str, Any]) -> dict[str, Any]:
    """The share of the machine that this trial has."""
    return {name: share for name, share in ray.get_runtime_context().get_assigned_resources().items() if share}
