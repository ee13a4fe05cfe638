"""One worker of a run that is stopped and goes on: trains, or is killed at a moment."""

import datetime
import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

import pytest
import torch.distributed as dist

from tests.parity.distributed_worker import end
from vse.config import override
from vse.errors import InputError, StorageError
from vse.presets import preset
from vse.stages import pipeline
from vse.stages import train as worker
from vse.training import loop
from vse.training.config import RunConfig
from vse.workspace.layout import Workspace

LOST = -signal.SIGKILL  # exit status of a worker that was told to disappear


def configured(name: str, workers: int, further: Mapping[str, Any] | None = None) -> RunConfig:
    """Four epochs in float64, with dropout: what is left out must not ask on which worker it is."""
    small = {"data.num_train": 24, "data.num_val": 8, "data.num_test": 4, "data.num_shifted": 0, "model.dim": 16}
    changes = {**small, "train.precision": "float64", "train.epochs": 4, "train.batch_size": 16, "model.dropout": 0.3}
    return override(preset(name), {**changes, "train.workers": workers, **(further or {})})


def _leave_at(epoch: int, step: int) -> None:
    """Kill this process when the run has done so much."""
    original = loop.Loop._step

    def stepped(self: loop.Loop, progress: Any, batch: Any, number: int, *sizes: int) -> None:
        if (progress.epoch, number) == (epoch, step):
            os.kill(os.getpid(), signal.SIGKILL)
        original(self, progress, batch, number, *sizes)

    pytest.MonkeyPatch().setattr(loop.Loop, "_step", stepped)


def _fail_on_rank_0(moment: str) -> None:
    """Let rank 0 alone fail: in its set-up, when it validates, or when it saves."""

    def failing(*arguments: Any, **named: Any) -> None:
        raise StorageError("the disk is full") if moment == "save" else InputError("this is wrong")

    if dist.get_rank() == 0:
        names = {"set-up": (worker, "begin_journal"), "validate": (worker, "count_retrieval")}
        pytest.MonkeyPatch().setattr(*names.get(moment, (worker.Checkpoints, "save")), failing)


def main(request: dict[str, Any], rank: int) -> int:
    """Join the others through a file and work on the run; an error is the last line on stdout and status 1."""
    workers = request["workers"]
    if workers > 1:
        # longer than the test waits: what does not fail at once fails the test
        timeout = datetime.timedelta(seconds=300)
        dist.init_process_group(
            "gloo", init_method=f"file://{request['store']}", rank=rank, world_size=workers, timeout=timeout
        )
    if "leave" in request:
        _leave_at(*request["leave"])
    if "fail" in request:
        _fail_on_rank_0(request["fail"])
    config = configured(request["preset"], workers, request.get("changes"))
    workspace = Workspace.open(request["workspace"])
    if request.get("every_step"):
        pytest.MonkeyPatch().setattr(loop, "ASK_EVERY", 1)
        config = override(config, {"train.checkpoint_seconds": 1e-9})
    material = pipeline.prepare(config, workspace)
    try:
        worker.train_worker(config, workspace, request["run"], material)
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        return 1
    finally:
        # as Ray does, also after an error: a process that exits with gloo's threads at work may abort instead
        if workers > 1:
            dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    end(main(json.loads(sys.argv[1]), int(sys.argv[2])))
