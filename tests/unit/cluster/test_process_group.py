"""What is looked at before workers of a training meet: their GPUs, and the network that they meet on."""

import os
from types import SimpleNamespace
from typing import Any

import pytest

from vse.cluster import process_group
from vse.cluster.process_group import GroupConfig
from vse.errors import WorkersLostError


@pytest.mark.parametrize(("backend", "seen"), [("nccl", True), ("nccl", False), ("gloo", False)])
def test_workers_meet_on_gpus_that_torch_finds(backend: str, seen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray counts the GPUs of a node whose driver torch cannot use."""
    met = list[Any]()
    monkeypatch.setattr("torch.cuda.is_available", lambda: seen)
    monkeypatch.setattr("platform.node", lambda: "node7")
    monkeypatch.setattr(process_group.TorchBackend, "on_start", lambda *arguments: met.append(arguments))
    monkeypatch.setattr(process_group, "_listen_where_ray_does", lambda: None)
    config, workers = GroupConfig(backend=backend), SimpleNamespace(execute=lambda asked: [asked(), asked()])
    meet: Any = config.backend_cls().on_start
    if backend == "nccl" and not seen:
        with pytest.raises(WorkersLostError, match=r"^train\.gpus_per_worker=1: torch finds no GPU on node7$"):
            meet(workers, config)
    else:
        meet(workers, config)
    assert len(met) == (backend == "gloo" or seen)


@pytest.mark.parametrize(
    ("address", "given", "listens"),
    [("127.0.0.1", None, "lo"), ("127.0.0.1", "eth7", "eth7"), ("203.0.113.9", None, None)],
)
def test_workers_listen_on_the_network_of_ray(
    address: str, given: str | None, listens: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not where the host's own name leads, unless no network has the node's address, as behind a translator."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", given or "")
    if given is None:
        monkeypatch.delenv("GLOO_SOCKET_IFNAME")
    asked = list[Any]()
    monkeypatch.setattr(process_group.ray.util, "get_node_ip_address", lambda: address)
    monkeypatch.setattr(process_group.TorchBackend, "on_start", lambda *_: asked.append(os.environ.copy()))
    meet: Any = GroupConfig(backend="gloo").backend_cls().on_start
    meet(SimpleNamespace(execute=lambda work: [work()]), GroupConfig(backend="gloo"))
    assert asked[0].get("GLOO_SOCKET_IFNAME") == listens
