"""How many actors work on captions asks for: of a machine what it has, of a cluster what it could become."""

import yaml

from tests.jobs.processes import ROOT
from vse.capacity import Capacity, Kind, planned
from vse.language.pool_ray import pool_of

HEAD = Capacity((Kind(4, head=True),))  # what is up of a cluster that was just launched
CLOUD = planned(yaml.safe_load((ROOT / "cluster.yaml").read_text()))


def parsing(now: Capacity, could: Capacity, shards: int = 1000, workers: int | None = None) -> tuple[int, int]:
    return pool_of(now, could, shards, workers)


def test_parsing_asks_for_cores_of_nodes_without_gpus() -> None:
    assert parsing(HEAD, HEAD) == (1, 5)
    assert parsing(HEAD, CLOUD) == (47, 47)  # (4 + 2 * 16 - 0.25) / 0.75
    assert parsing(HEAD, CLOUD, shards=7) == (7, 7)
    assert parsing(HEAD, CLOUD, shards=4) == (1, 4)
    assert parsing(HEAD, CLOUD, workers=6) == (6, 6)
    assert parsing(Capacity((Kind(0, head=True),)), Capacity((Kind(0, head=True), Kind(8, 1, 1)), 1)) == (10, 10)
    assert parsing(Capacity((Kind(1),)), Capacity((Kind(1),))) == (1, 1)
