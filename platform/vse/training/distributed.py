"""One run on several workers through Ray Train: each runs `train_worker` inside a process group."""

import os
from typing import Any

import ray.train
from ray.train import FailureConfig, ScalingConfig
from ray.train import RunConfig as TrainRunConfig
from ray.train.torch import TorchConfig, TorchTrainer

from vse.config import from_dict, to_dict
from vse.training.config import RunConfig
from vse.workspace import Workspace

RETRIES = 3  # a worker lost with its spot instance is no reason to give up; each retry goes on from the checkpoint


def train_on_workers(config: RunConfig, workspace: Workspace, name: str, parent: str, report: Any) -> None:
    """Run to the end on `config.train.workers` workers; the process must be connected to Ray.

    Epoch numbers are in the run's journal as they come; `report` hears them when the run has ended.
    """
    from vse.training.run import RESULT

    gpus = config.train.gpus_per_worker
    # Train's own bookkeeping (no model state: checkpoints are the run's) must lie where every node can read it.
    os.environ.setdefault("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "600")
    trainer = TorchTrainer(
        _worker,
        train_loop_config={
            "config": to_dict(config),
            "workspace": workspace.root.uri,
            "run": name,
            "parent": parent,
        },
        scaling_config=ScalingConfig(
            num_workers=config.train.workers,
            use_gpu=gpus > 0,
            resources_per_worker={"CPU": 1, **({"GPU": gpus} if gpus else {})},
        ),
        torch_config=TorchConfig(backend="nccl" if gpus else "gloo", timeout_s=600),
        run_config=TrainRunConfig(
            name=name,
            storage_path=workspace.run(name).child("ray").uri,
            failure_config=FailureConfig(max_failures=RETRIES),
        ),
    )
    trainer.fit()
    if report is not None:
        for epoch, numbers in enumerate(workspace.run(name).read_json(RESULT)["history"], start=1):
            report({**numbers, "epoch": epoch})


def _worker(arguments: dict[str, Any]) -> None:
    from vse import pipeline
    from vse.presets import preset
    from vse.training.run import train_worker

    # Any preset serves as the frame: the data name every component and every value.
    config = from_dict(preset("vsepp_tiny"), arguments["config"])
    workspace = Workspace.open(arguments["workspace"])
    material = pipeline.prepare(config, workspace)
    train_worker(config, workspace, arguments["run"], material, arguments["parent"])
    ray.train.report({"done": 1})
