"""What fits, and what is refused before anything starts."""

import contextlib
import importlib
import logging
import sys
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vse.cluster import placement, runtime
from vse.cluster.placement import check_room, preflight
from vse.cluster.runtime import Config
from vse.errors import InputError, PlacementError

pytestmark = pytest.mark.usefixtures("bare_environment")


def test_nodes_that_leave_are_not_asked_and_those_that_stay_answer_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray
    from ray.exceptions import GetTimeoutError, TaskUnschedulableError

    up = [{"NodeID": 56 * digit, "NodeManagerAddress": f"10.0.0.{digit}", "Alive": True} for digit in "12"]
    answers: dict[str, Any] = {"10.0.0.1": True, "10.0.0.2": TaskUnschedulableError("its node is gone")}

    def get(asked: str, timeout: float) -> bool:
        answer = answers[asked]
        if isinstance(answer, Exception):
            up[1]["Alive"] = not isinstance(answer, TaskUnschedulableError)
            raise answer
        return answer

    def options(scheduling_strategy: Any) -> SimpleNamespace:
        host = next(n["NodeManagerAddress"] for n in up if n["NodeID"] == scheduling_strategy.node_id)
        return SimpleNamespace(remote=lambda *_: host)

    monkeypatch.setattr(ray, "nodes", lambda: up)
    monkeypatch.setattr(ray, "get", get)
    monkeypatch.setattr(ray, "remote", lambda **_: lambda function: SimpleNamespace(options=options))
    assert placement.on_every_node(len, "") == {"10.0.0.1": True}
    up[1]["Alive"], answers["10.0.0.2"] = True, GetTimeoutError("no answer")
    with pytest.raises(PlacementError, match=r"^node 10\.0\.0\.2 did not answer in 120 s, though it is up"):
        placement.on_every_node(len, "")


def test_preflight_refuses_what_can_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = str(tmp_path / "w")
    preflight(space, Config(cpus=4, gpus=0), workers=4)
    with pytest.raises(InputError, match=r"train\.workers=5: needs 5 CPUs, but this machine has 4; at most 4 workers"):
        preflight(space, Config(cpus=4, gpus=0), workers=5, key="train.workers")
    with pytest.raises(InputError, match=r"^train\.gpus_per_worker=1: a GPU is requested, but this machine has none"):
        preflight(space, Config(cpus=4, gpus=0), gpus_per_worker=1, key="train.workers")
    with pytest.raises(InputError, match=r"^train\.gpus_per_worker=2: a worker computes on one GPU; use train\.work"):
        preflight(space, Config(cpus=4, gpus=1), gpus_per_worker=2, key="train.workers")
    with pytest.raises(InputError, match=r"^train\.threads=8: needs 8 CPUs, but this machine has 4$"):
        preflight(space, Config(cpus=4, gpus=1), workers=2, cpus_per_worker=8, key="train.workers")
    with pytest.raises(InputError, match="at most 1 worker fits"):
        preflight(space, Config(cpus=4, gpus=1), workers=2, gpus_per_worker=1)
    with pytest.raises(InputError, match=r"^train\.gpus_per_worker=0\.5: workers of one training cannot share a GPU; "):
        preflight(space, Config(cpus=4, gpus=1), workers=2, gpus_per_worker=0.5, key="train.workers")
    preflight(space, Config(cpus=4, gpus=1), gpus_per_worker=0.125)
    with pytest.raises(InputError, match=r"^train\.gpus_per_worker=1: a GPU is requested, but this machine has none"):
        check_room(Config(cpus=4, gpus=0), gpus_per_worker=1, key="train.workers")  # as a dry run does
    preflight(space, Config(cpus=5, gpus=0), workers=2, cpus_per_worker=2, decoders=3)
    with pytest.raises(
        InputError, match=r"^train\.decoders=3: needs a CPU next to the 4 of the workers, but this machi"
    ):
        preflight(space, Config(cpus=4, gpus=0), workers=2, cpus_per_worker=2, decoders=3, key="train.workers")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file"):
        preflight(str(tmp_path / "file" / "w"), Config(cpus=4))


LAUNCHED = """
max_workers: 3
head_node_type: head
available_node_types:
  head: {resources: {CPU: 8}, node_config: {}}
  gpu: {resources: {CPU: 8, GPU: 1}, max_workers: 3, node_config: {}}
"""


def test_preflight_knows_what_an_autoscaler_can_bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "ray_bootstrap_config.yaml").write_text(LAUNCHED)
    shared = Config(shared_workspace=True)
    preflight(str(tmp_path / "w"), shared, workers=3, gpus_per_worker=1)
    with pytest.raises(InputError, match="workers=4: needs 4 GPUs, but the cluster can have 3"):
        preflight(str(tmp_path / "w"), shared, workers=4, gpus_per_worker=1)

    looked: list[str] = []
    here = 1

    @contextlib.contextmanager
    def joined(config: Config) -> Generator[int]:
        yield here

    monkeypatch.setattr(placement, "running_ray", joined)
    monkeypatch.setattr(placement, "check_shared", looked.append)
    with pytest.raises(InputError, match="a local path, but the cluster can have 4 nodes, and no other is up yet"):
        preflight(str(tmp_path / "w"), Config())
    here = 2
    preflight(str(tmp_path / "w"), Config())
    assert looked == [str(tmp_path / "w")]


STEADY = """
  spot: {resources: {CPU: 8, GPU: 1}, labels: {vse.lifecycle: spot}, max_workers: 2, node_config: {}}
  steady: {resources: {CPU: 8, GPU: 1}, labels: {vse.lifecycle: on-demand}, max_workers: 1, node_config: {}}
"""


def test_ranks_beyond_the_nodes_that_stay_are_refused(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "ray_bootstrap_config.yaml").write_text(
        LAUNCHED.replace(": 3\n", ": 9\n") + STEADY.lstrip("\n")
    )
    space, shared = str(tmp_path / "w"), Config(shared_workspace=True)
    steady = runtime.steady_nodes(shared, gpus=1)
    assert steady == {"vse.lifecycle": "on-demand"}
    assert runtime.steady_nodes(shared, gpus=0) is runtime.steady_nodes(Config(address="local"), gpus=1) is None
    preflight(space, shared, workers=6, gpus_per_worker=1)
    preflight(space, shared, workers=1, gpus_per_worker=1, labels=steady)
    with pytest.raises(
        InputError,
        match=r"train\.workers=2: needs 2 GPUs, but the cluster can have 1 on nodes labelled vse\.lifecycle: ",
    ):
        preflight(space, shared, workers=2, gpus_per_worker=1, labels=steady, key="train.workers")
    with pytest.raises(
        InputError, match="each needs 9 CPUs and 0 GPUs of one node, but the cluster can have room for 0"
    ):
        preflight(space, shared, workers=1, cpus_per_worker=9)


def test_gpus_that_a_training_leaves_unused_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "ray_bootstrap_config.yaml").write_text(LAUNCHED)
    with caplog.at_level(logging.WARNING):
        preflight(str(tmp_path / "w"), Config(shared_workspace=True), gpus_per_worker=1)
        preflight(str(tmp_path / "w"), Config(address="local", cpus=1, gpus=1))
        assert not caplog.records
        preflight(str(tmp_path / "w"), Config(shared_workspace=True))
    assert [record.message for record in caplog.records] == [
        "training on CPUs, though the cluster can have 3 GPUs; train.gpus_per_worker=1 uses them"
    ]


def test_a_cluster_file_counts_only_for_the_cluster_it_launched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "ray_bootstrap_config.yaml").write_text(LAUNCHED)
    assert placement.capacity().total() == {"CPU": 32, "GPU": 3}
    assert placement.capacity(Config(address="local", cpus=2, gpus=0)).total() == {"CPU": 2, "GPU": 0}
    up = [{"Alive": True, "Resources": {"CPU": 5.0}, "Labels": {}}]
    monkeypatch.setattr(runtime, "_num_nodes", lambda: 1)
    importlib.import_module("ray._private.ray_constants")  # or it is looked for in the stand-in
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: True, nodes=lambda: up))
    monkeypatch.setattr(runtime, "_started_here", False)  # an earlier test of this process may have started one
    assert placement.capacity().total() == {"CPU": 32, "GPU": 3}
    monkeypatch.setattr(runtime, "_started_here", True)
    assert placement.capacity().total() == {"CPU": 5, "GPU": 0}
