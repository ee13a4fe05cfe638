"""How many actors work on captions asks for: of a machine what it has, of a cluster what it could become."""

import yaml

from tests.jobs.processes import ROOT
from vse.cluster.capacity import Capacity, NodeKind, planned
from vse.stages.shards_ray import pool_size

HEAD = Capacity((NodeKind(4, head=True),))  # what is up of a cluster that was just launched
CLOUD = planned(yaml.safe_load((ROOT / "cluster.yaml").read_text()))


def parsing(now: Capacity, could: Capacity, shards: int = 1000, workers: int | None = None) -> tuple[int, int]:
    return pool_size(now, could, shards, workers)


def test_parsing_asks_for_cores_of_nodes_without_gpus() -> None:
    assert parsing(HEAD, HEAD) == (1, 5)
    assert parsing(HEAD, CLOUD) == (47, 47)  # (4 + 2 * 16 - 0.25) / 0.75
    assert parsing(HEAD, CLOUD, shards=7) == (7, 7)
    assert parsing(HEAD, CLOUD, shards=4) == (1, 4)
    assert parsing(HEAD, CLOUD, workers=6) == (6, 6)
    assert parsing(Capacity((NodeKind(0, head=True),)), Capacity((NodeKind(0, head=True), NodeKind(8, 1, 1)), 1)) == (
        10,
        10,
    )
    assert parsing(Capacity((NodeKind(1),)), Capacity((NodeKind(1),))) == (1, 1)


def test_no_actor_is_left_over_for_a_node_with_a_gpu() -> None:
    """What remains of the cores of several nodes is no place for an actor, though it adds up to one."""
    could = Capacity((NodeKind(1, head=True), NodeKind(2, count=3), NodeKind(8, 1, 2)))
    assert parsing(Capacity((NodeKind(1, head=True),)), could) == (
        7,
        7,
    )  # 0.75 of 1, 1.5 of each 2; not 9 of all 7 cores
    assert parsing(Capacity((NodeKind(3),)), Capacity((NodeKind(3),))) == (1, 3)  # a fourth would take what feeds them
