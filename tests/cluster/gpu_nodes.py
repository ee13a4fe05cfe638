"""A training that wants GPUs which the driver's host lacks, on nodes that have some (in name only).

`python -m tests.cluster.gpu_nodes FOLDER` prints, as JSON, what is said while the only GPU is on a node that may
vanish, what the run gives on one that stays, where its process is lost once, and what it gives undisturbed. It wants a
network and process namespace of its own: Ray's test cluster listens on all addresses.
"""

import functools
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from vse.cluster.runtime import LIFECYCLE, Config, num_gpus, prepare_environment, running_ray
from vse.config import override
from vse.errors import InputError, PlacementError
from vse.presets import preset
from vse.training.config import RunConfig
from vse.workspace.layout import Workspace

PATIENCE = 20  # seconds that workers wait for their places
SIZES = {"data.num_train": 40, "data.num_val": 10, "data.num_test": 10, "data.num_shifted": 0, "train.epochs": 6}


def configured(**changes: Any) -> RunConfig:
    """A small run."""
    return override(
        preset("vsepp_tiny"), {**SIZES, **{key.replace("__", "."): value for key, value in changes.items()}}
    )


def worker(arguments: dict[str, Any]) -> tuple[str, str] | None:
    """What `train_in_task` runs, computing on the CPU; the first process of it is lost after two epochs."""
    import ray

    from vse.stages.train import run_worker

    place = Workspace.open(arguments["workspace"])
    kept = place.run(arguments["run"]).child("checkpoints", "epoch-0002")
    lives = Path(place.root.local()) / "lives"
    with lives.open("a") as file:
        file.write(f"{ray.get_runtime_context().get_node_labels()[LIFECYCLE]}\n")
    if not kept.is_committed():

        def lose() -> None:
            while not kept.is_committed():
                time.sleep(0.001)
            os._exit(1)

        threading.Thread(target=lose, daemon=True).start()
    with mock.patch("vse.stages.train.training_device", return_value=torch.device("cpu")):
        return run_worker(arguments)


def said_by(work: Any) -> str:
    """The line that ends a piece of work."""
    try:
        work()
    except (InputError, PlacementError) as error:
        return f"{type(error).__name__}: {error}"
    return ""


def history(place: Workspace, name: str) -> list[dict[str, float]]:
    """The numbers of a finished run, without times."""
    rows = place.run(name).read_json("result.json")["history"]
    return [{key: value for key, value in row.items() if not key.endswith("seconds")} for row in rows]


def main(folder: str) -> None:
    prepare_environment(Config(address="127.0.0.1:1"))  # of a cluster, before Ray is imported
    os.environ["VSE_TRAIN_NODES"] = "on-demand"  # as on the head of a cluster that has such
    os.environ["RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"] = str(PATIENCE)
    from ray.cluster_utils import Cluster

    from vse.stages.pipeline import prepare
    from vse.stages.train import run_name, run_training, run_worker, trains_here

    place = Workspace.open(f"{folder}/w")
    alone, wanted = configured(), configured(train__gpus_per_worker=1)
    calm = run_training(alone, Workspace.open(f"{folder}/calm"))
    name = run_name(wanted, prepare(wanted, place))
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    cluster.add_node(num_cpus=2, num_gpus=2, labels={LIFECYCLE: "spot"})
    heard: list[float] = []
    with running_ray(Config(address=str(cluster.address))):
        from vse.stages.train_ray import train_in_task, train_on_workers

        told: dict[str, Any] = {"here": num_gpus(), "elsewhere": not trains_here(wanted.train)}
        two = configured(train__workers=2, train__gpus_per_worker=1)
        told["waited"] = []
        for key, work, asked in (("one", train_in_task, wanted), ("two", train_on_workers, two)):
            started = time.monotonic()
            told[key] = said_by(functools.partial(work, run_worker, asked, place, name, ""))
            told["waited"].append(time.monotonic() - started)
        os.environ["RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"] = "100"
        cluster.add_node(num_cpus=1, num_gpus=1, labels={LIFECYCLE: "on-demand"})
        told["no driver"] = said_by(lambda: run_training(wanted, place))
        train_in_task(worker, wanted, place, name, "", lambda row: heard.append(row["epoch"]))
    told |= {"lives": (Path(place.root.local()) / "lives").read_text().split(), "heard": heard}
    told |= {"found": history(place, name), "calm": history(Workspace.open(f"{folder}/calm"), calm.run)}
    print(json.dumps(told))


if __name__ == "__main__":
    from tests.cluster import gpu_nodes  # whose functions workers can import, unlike those of __main__

    gpu_nodes.main(sys.argv[1])
