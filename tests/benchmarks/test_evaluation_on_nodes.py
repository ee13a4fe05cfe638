"""SCAN's shards on simulated nodes of one CPU each: efficiency of two nodes against one. `-s` shows it."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vse.cluster import runtime
from vse.config import override
from vse.evaluation import shards
from vse.presets import preset
from vse.stages.measuring.options import MeasureOptions
from vse.stages.measuring.stage import measure
from vse.stages.train import run_training
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(1800)]

IMAGES, SHARD = 600, 150  # images of the split, captions of a shard: 3,000 captions in 20 shards
SIZES = {"data.num_train": 40, "data.num_val": 6, "data.num_test": IMAGES, "data.num_shifted": 4, "train.epochs": 1}


@contextmanager
def nodes(number: int) -> Generator[None]:
    """A cluster whose head has no CPU for tasks, as on GPU clusters, and nodes with one each."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 10**8})
    try:
        for _ in range(number):
            cluster.add_node(num_cpus=1, object_store_memory=10**8)
        with runtime.running_ray(runtime.Config(address=str(cluster.address))):
            yield
    finally:
        cluster.shutdown()


def test_two_nodes_share_an_evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers equal those of one process. Each cluster measures twice: first with processes that start and open the
    run, then with those that are there."""
    workspace = Workspace.open(str(tmp_path / "workspace"))
    run = run_training(override(preset("scan_t2i_avg_small"), SIZES), workspace).folder
    monkeypatch.setattr(shards, "FROM_PAIRS", 1)
    monkeypatch.setattr(shards, "CAPTIONS_AT_ONCE", SHARD)

    def timed(name: str) -> tuple[float, dict[str, float]]:
        began = time.perf_counter()
        found = measure([run], Folder.open(tmp_path / name), workspace, ("retrieval",), MeasureOptions())
        return time.perf_counter() - began, found.metrics

    alone, expected = timed("alone")
    taken = dict[tuple[int, str], float]()
    for number in (1, 2):
        with nodes(number):
            for state in ("new", "warm"):
                taken[number, state], found = timed(f"{number} {state}")
                assert found == expected
    efficiency = {state: taken[1, state] / taken[2, state] / 2 for state in ("new", "warm")}
    print(
        f"\nSCAN t-i, {IMAGES} images and {5 * IMAGES} captions: {alone:.0f} s in one process; on one node "
        f"{taken[1, 'new']:.0f} s with new processes, {taken[1, 'warm']:.0f} s with warm ones; on two "
        f"{taken[2, 'new']:.0f} and {taken[2, 'warm']:.0f} s: efficiency {efficiency['new']:.2f} and "
        f"{efficiency['warm']:.2f}; one node takes {taken[1, 'warm'] / alone:.2f} of one process's time"
    )
    assert efficiency["warm"] > 0.8
