"""Searches in shards find what a search in one process finds."""

import pickle
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vse.cluster import runtime
from vse.config import override
from vse.evaluation import shards
from vse.evaluation.work import Arrays, Job
from vse.inference import embedder as embedding
from vse.inference import search_shards
from vse.inference.image_search import SearchOptions, SearchResult, search
from vse.presets import preset
from vse.stages.train import run_training
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.seconds

SIZES = {"data.num_train": 40, "data.num_val": 6, "data.num_test": 27, "data.num_shifted": 4, "model.dim": 16}
SENTENCES = ("a red ball", "a small green box left of a cone")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.open(str(tmp_path_factory.mktemp("search")))


@pytest.fixture(scope="module")
def options(place: Workspace) -> SearchOptions:
    config = override(preset("scan_t2i_avg_small"), SIZES | {"train.epochs": 1})
    return SearchOptions(run=run_training(config, place).run, text=SENTENCES)


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of five images, two of them in a shard, and shards for any search."""
    monkeypatch.setattr(shards, "FROM_PAIRS", 1)
    monkeypatch.setattr(embedding, "IMAGES_AT_ONCE", 5)
    monkeypatch.setattr(search_shards, "IMAGES_OF_A_SHARD", 10)


@pytest.fixture
def expected(place: Workspace, options: SearchOptions, blocks: None) -> SearchResult:
    return search(place, options)  # without a cluster


def test_shards_by_other_processes_are_one_search(
    place: Workspace, options: SearchOptions, expected: SearchResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, original = list[str](), embedding.Embedder.of_run

    def computed(jobs: Sequence[Job], device: Any, title: str, *, any_device: bool, workspace: str) -> list[Arrays]:
        assert (any_device, workspace) == (True, place.root.uri)
        monkeypatch.setattr(embedding.Embedder, "of_run", lambda *given: opened.append(given[1]) or original(*given))
        sent = pickle.loads(pickle.dumps(list(jobs)))
        return [work.compute(number, device) for work, number in reversed(sent)][::-1]

    monkeypatch.setattr(search_shards, "computed_on_cluster", computed)
    found = search(place, options)
    assert found.answers == expected.answers
    assert opened == [options.run]  # once for the three shards
    sizes = [len(each["scores"]) for each in search_shards_of(place, options, monkeypatch)]
    assert sizes == [10, 10, 7]


def search_shards_of(place: Workspace, options: SearchOptions, patch: pytest.MonkeyPatch) -> list[Arrays]:
    """What tasks returned."""
    results = list[Arrays]()

    def computed(jobs: Sequence[Job], device: Any, *_: Any, **__: Any) -> list[Arrays]:
        results.extend(work.compute(number, device) for work, number in jobs)
        return results

    patch.setattr(search_shards, "computed_on_cluster", computed)
    search(place, options)
    return results


def test_a_short_search_stays_in_this_process(
    place: Workspace, options: SearchOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_shards, "computed_on_cluster", lambda *_, **__: pytest.fail("sent away"))
    assert len(search(place, options).answers) == len(SENTENCES)


@pytest.fixture
def nodes() -> Iterator[None]:
    """A head without CPUs for tasks, and two nodes of one CPU each."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 10**8})
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=1, object_store_memory=10**8)
        with runtime.running_ray(runtime.Config(address=str(cluster.address))):
            yield
    finally:
        cluster.shutdown()


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_two_nodes_search_as_one_process_does(
    place: Workspace, options: SearchOptions, monkeypatch: pytest.MonkeyPatch, nodes: None, tmp_path: Path
) -> None:
    whole = search(place, options)
    monkeypatch.setattr(shards, "FROM_PAIRS", 1)
    monkeypatch.setattr(embedding.Embedder, "scores_of", lambda *_: pytest.fail("scored by this process"))
    found = search(place, options)
    assert found.answers == whole.answers
    assert np.isfinite([hit.score for answer in found.answers for hit in answer.hits]).all()
