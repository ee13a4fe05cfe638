"""Work as Ray tasks in two processes: the same numbers as one after another in this process."""

import functools
import os
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest
import torch

from vse.cluster import runtime
from vse.cluster.capacity import Capacity, NodeKind
from vse.errors import Diverged, InputError, PlacementError, StorageError
from vse.evaluation.probes.alignment import AlignmentProbe, AlignmentSettings
from vse.evaluation.work import Arrays, Work, plain_map, run_jobs
from vse.stages.measuring import work_ray
from vse.stages.measuring.work import ResultFolder, work_runner
from vse.stages.measuring.work_ray import run_with_ray
from vse.storage.folder import Folder

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]
CPU = torch.device("cpu")


def probe_of(seed: int) -> AlignmentProbe:
    rng = np.random.default_rng(seed)
    positive = rng.random((50, 9)) < 0.3
    settings = AlignmentSettings(hidden=8, epochs=4)
    images, words = rng.normal(size=(50, 33)).astype(np.float32), rng.normal(size=(9, 21)).astype(np.float32)
    return AlignmentProbe(images, words, positive, ~positive, settings)


@pytest.fixture(scope="module")
def cluster():
    with runtime.running_ray(runtime.Config(address="local", cpus=2, gpus=0, store_mib=100)):
        yield


def test_ray_gives_the_same_bits(cluster, tmp_path):
    jobs = [(probe, seed) for probe in (probe_of(0), probe_of(1)) for seed in (0, 1, 2)]
    with work_runner() as runner:
        assert isinstance(runner, functools.partial)
        assert runner.func is run_with_ray
        there = run_jobs(jobs, CPU, runner, ResultFolder(Folder.open(tmp_path)))
    here = run_jobs(jobs, CPU, plain_map)
    for one, other in zip(here, there, strict=True):
        assert one.keys() == other.keys()
        assert all((one[name] == other[name]).all() for name in one)
    assert len(os.listdir(tmp_path)) == len(jobs)
    kept = run_jobs(jobs, CPU, lambda *_: pytest.fail("trained again"), ResultFolder(Folder.open(tmp_path)))
    assert all((one[name] == other[name]).all() for one, other in zip(kept, here, strict=True) for name in one)


def test_a_cluster_without_gpus_is_one_line(cluster) -> None:
    with pytest.raises(InputError, match=r"^measure\.device=cuda: the cluster cannot provide a GPU"):
        list(run_with_ray([(probe_of(0), 0)], torch.device("cuda")))


@dataclass(frozen=True, eq=False)
class Failing(Work):
    """Raises an error instead of a result."""

    error: type[Exception]

    @cached_property
    def digits(self) -> str:
        return "failing"

    def compute(self, number: int, device: torch.device) -> Arrays:
        raise self.error("one line")


@pytest.mark.parametrize("error", [InputError, Diverged, StorageError])
def test_an_error_of_a_task_is_the_line_that_it_is_in_process(cluster, error: type[Exception]) -> None:
    with pytest.raises(error) as raised:
        list(run_with_ray([(Failing(error), 0)], CPU))
    assert (type(raised.value), str(raised.value)) == (error, "one line")


def test_a_node_that_never_starts_is_one_line(cluster, monkeypatch, caplog) -> None:
    """An autoscaler may promise a GPU that the cloud does not have."""
    monkeypatch.setattr(work_ray, "capacity", lambda: Capacity((NodeKind(cpus=8, gpus=1),)))
    monkeypatch.setattr(work_ray, "placement_seconds", lambda: 0.5)
    monkeypatch.setattr(work_ray, "LOOK_EVERY", 0.1)
    has = r"the cluster has 2 CPUs and 0 GPUs on 1 node; see `ray status`"
    with pytest.raises(PlacementError, match=rf"^measuring: no node with a GPU started within 0\.5 s; {has}$"):
        list(run_with_ray([(probe_of(0), 0)], torch.device("cuda")))
    (warning,) = [message for message in caplog.messages if message.startswith("measuring waits")]
    assert warning.startswith("measuring waits for a node with a GPU, at most 0.5 s; the cluster has 2 CPUs")


def test_a_task_that_takes_long_is_waited_for(cluster, monkeypatch) -> None:
    monkeypatch.setattr(work_ray, "placement_seconds", lambda: 0.0)
    monkeypatch.setattr(work_ray, "LOOK_EVERY", 0.01)
    ((place, result),) = run_with_ray([(probe_of(0), 0)], CPU)
    assert (place, bool(result)) == (0, True)
