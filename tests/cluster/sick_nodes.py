"""Twelve trials on three nodes with a GPU each (in name only): the first that is met has a full disk; then all have.

`python -m tests.cluster.sick_nodes FOLDER` prints, as JSON, the state, attempts and node of every trial, the sick node,
the errors on the way, and how the sweep ended in which every node was sick. It wants a network and process namespace of
its own: Ray's test cluster listens on all addresses.
"""

import contextlib
import functools
import json
import os
import sys
import time
from typing import Any

from vse.cluster.runtime import Config, prepare_environment, running_ray
from vse.errors import StorageError
from vse.storage.folder import Folder

TRIALS, NODES = 12, 3


def work(changes: dict[str, Any], marker: str) -> dict[str, Any]:
    """Takes two seconds, on the sick node none; without a marker every node is sick."""
    import ray

    node = ray.get_runtime_context().get_node_id()
    if marker:
        with contextlib.suppress(FileExistsError):
            os.symlink(node, marker)  # whole at once
    if not marker or os.readlink(marker) == node:
        raise StorageError("/scratch: no space left on device")
    time.sleep(2.0)
    return {"node": node}


def main(folder: str) -> None:
    prepare_environment(Config(address="127.0.0.1:1"))  # of a cluster, before Ray is imported
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(NODES):
        cluster.add_node(num_cpus=1, num_gpus=1)
    with running_ray(Config(address=str(cluster.address))):
        from tests.unit.sweeps.running import run_sweep
        from vse.sweeps.budget import Resources
        from vse.sweeps.ledger import Ledger

        trials, need, ends, marker = [{"x": x} for x in range(TRIALS)], Resources(gpus=1), [], f"{folder}/sick"
        one = Ledger(Folder.open(f"{folder}/one"))
        asked = functools.partial(work, marker=marker)
        entries = run_sweep(one, trials, asked, need=need, on_end=lambda entry: ends.append(entry.failure or ""))
        every = Ledger(Folder.open(f"{folder}/every"))
        said = ""
        try:
            run_sweep(every, trials, functools.partial(work, marker=""), need=need)
        except StorageError as error:
            said = str(error)
    found = [{"state": e.state, "attempts": e.attempts, "node": e.result["node"]} for e in entries]
    told = {"entries": found, "sick": os.readlink(marker), "errors": [error for error in ends if error]}
    print(json.dumps({**told, "every": {"said": said, "tried": len(every)}}))


if __name__ == "__main__":
    from tests.cluster import sick_nodes  # whose functions workers can import, unlike those of __main__

    sick_nodes.main(sys.argv[1])
