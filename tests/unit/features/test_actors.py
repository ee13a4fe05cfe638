"""How many actors extraction asks for: of a machine what it has, of a cluster what it could become."""

import pytest
import yaml

from tests.jobs.processes import ROOT
from vse.cluster.capacity import Capacity, NodeKind, planned
from vse.errors import InputError
from vse.features.backbones import SmallBackbone
from vse.stages import extract_ray
from vse.stages.extract_ray import _Extractor, pool_of

HEAD = Capacity((NodeKind(4, head=True),))  # what is up of a cluster that was just launched
CLOUD = planned(yaml.safe_load((ROOT / "cluster.yaml").read_text()))


def extraction(now: Capacity, could: Capacity, images: int = 100_000, workers: int | None = None) -> tuple[int, ...]:
    pool = pool_of(now, could, images, workers)
    return pool.least, pool.first, pool.most, pool.gpu


@pytest.mark.parametrize("cpus", [1, 2, 3, 4, 16])
def test_on_one_machine_extraction_has_one_actor_for_each_core_but_one(cpus: int) -> None:
    here, fitting = Capacity((NodeKind(cpus),)), max(1, cpus - 1)
    assert extraction(here, here) == (1, fitting, fitting, False)
    assert extraction(here, here, workers=2) == (1, min(2, fitting), 2, False)
    with pytest.raises(InputError, match="needs a core of the Ray cluster, which has 0; use workers=0"):
        extraction(Capacity((NodeKind(0),)), Capacity((NodeKind(0),)))


def test_gpus_that_are_there_have_an_actor_each() -> None:
    here = Capacity((NodeKind(8, 2), NodeKind(8, 2)))
    assert extraction(here, here) == extraction(here, here, images=10) == (1, 4, 4, True)
    assert extraction(here, here, workers=1) == (1, 1, 1, True)


def test_extraction_brings_the_gpus_that_a_cluster_could_have() -> None:
    assert extraction(HEAD, CLOUD) == (10, 10, 10, True)
    assert extraction(HEAD, CLOUD, images=10**6) == (12, 12, 12, True)
    assert extraction(HEAD, CLOUD, images=8_000) == (1, 1, 1, True)  # one node is enough for so few
    assert extraction(HEAD, CLOUD, images=8_000, workers=3) == (3, 3, 3, True)
    assert extraction(HEAD, CLOUD, workers=30) == (12, 12, 30, True)  # those beyond the limit are not waited for
    some = Capacity((*HEAD.kinds, *[NodeKind(8, 1)] * 4))
    assert extraction(some, CLOUD, images=8_000) == (1, 4, 4, True)  # these cost already


def test_extraction_without_gpus_leaves_a_core_of_every_node_to_what_feeds_it() -> None:
    could = Capacity((NodeKind(4, head=True), NodeKind(16, 0, 2)), 2)
    assert extraction(HEAD, could) == (33, 33, 33, False)
    assert extraction(HEAD, could, images=5_000) == (5, 5, 5, False)
    assert extraction(HEAD, could, images=300) == (1, 3, 3, False)


def test_an_actor_computes_on_no_cpu_in_place_of_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray counts the GPU of a node whose driver has died."""
    monkeypatch.setattr(extract_ray, "is_assigned_gpu_missing", lambda: True)
    monkeypatch.setattr("platform.node", lambda: "node7")
    with pytest.raises(InputError, match=r"^extraction: torch finds no GPU on node7, on which Ray assigned one$"):
        _Extractor(SmallBackbone.Config(weights="random"), ("pooled",), None, "float32")
