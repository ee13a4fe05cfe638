"""Eight trainings on nodes with a GPU each (in name only), of which one is lost whenever a trial has finished.

`python -m tests.cluster.lost_nodes FOLDER` prints, as JSON, what the ledger held at every loss, the errors on the way,
its entries at the end, and what the same trainings give when nothing is lost. It wants a network and process namespace
of its own: Ray's test cluster listens on all addresses.
"""

import json
import sys
from collections import deque
from typing import Any

from vse.cluster.runtime import Config, prepare_environment, running_ray
from vse.config import override
from vse.presets import preset
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace

TRIALS, NODES = 8, 3
SIZES = {"data.num_train": 40, "data.num_val": 10, "data.num_test": 10, "data.num_shifted": 0, "train.epochs": 6}


def train(changes: dict[str, Any]) -> dict[str, Any]:
    """One training; the trial's GPU is one in name only, so it computes on the CPU."""
    from vse.stages.train import run_training

    config = override(preset("vsepp_tiny"), {**SIZES, "seed": changes["seed"]})
    result = run_training(config, Workspace.open(changes["workspace"]))
    return {"run": result.run, "metrics": {k: v for k, v in result.metrics.items() if not k.endswith("seconds")}}


def main(folder: str) -> None:
    prepare_environment(Config(address="127.0.0.1:1"))  # of a cluster, before Ray is imported
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    nodes = deque(cluster.add_node(num_cpus=1, num_gpus=1) for _ in range(NODES))
    trials = [{"seed": seed, "workspace": f"{folder}/w"} for seed in range(TRIALS)]
    losses: list[dict[str, int]] = []
    errors: list[str] = []
    train({**trials[0], "workspace": f"{folder}/undisturbed"})  # data and features, so that trials only train
    with running_ray(Config(address=str(cluster.address))):
        from tests.unit.sweeps.running import run_sweep
        from vse.sweeps.budget import Resources
        from vse.sweeps.ledger import Entry, Ledger

        ledger = Ledger(Folder.open(f"{folder}/w/sweeps/lost"))

        def lose(entry: Entry) -> None:
            if entry.error:
                errors.append(entry.error)
            states = [each.state for each in ledger]
            if entry.state == "finished" and states.count("finished") < TRIALS:
                cluster.remove_node(nodes.popleft(), allow_graceful=False)
                nodes.append(cluster.add_node(num_cpus=1, num_gpus=1, wait=False))
                losses.append({state: states.count(state) for state in ("finished", "failed")})

        entries = run_sweep(ledger, trials, train, need=Resources(cpus=1, gpus=1), on_end=lose)
    found = [{"state": e.state, "attempts": e.attempts, **e.result} for e in entries]
    calm = [train({**trial, "workspace": f"{folder}/undisturbed"}) for trial in trials]
    print(json.dumps({"losses": losses, "errors": errors, "entries": found, "undisturbed": calm}))


if __name__ == "__main__":
    from tests.cluster import lost_nodes  # whose functions workers can import, unlike those of __main__

    lost_nodes.main(sys.argv[1])
