"""How workers of a training find each other: Ray Train's process group, with what it takes for granted looked at."""

import os
import platform
from typing import Any

import ray
from ray.train.torch import TorchConfig

from vse.errors import WorkersLostError

TorchBackend: Any = TorchConfig().backend_cls


class GroupConfig(TorchConfig):
    """Ray Train's own configuration, with a check of the workers' GPUs and networks before they connect."""

    @property
    def backend_cls(self) -> type[Any]:
        return _Group


class _Group(TorchBackend):
    def on_start(self, worker_group: Any, backend_config: TorchConfig) -> None:
        """Raises WorkersLostError, which names the nodes, where GPUs are there by Ray's account alone, as with a driver
        that is too old: NCCL would say so by a traceback. In a sweep the trial is tried again, perhaps elsewhere."""
        blind = worker_group.execute(_without_gpu) if backend_config.backend == "nccl" else []
        if nodes := ", ".join(sorted({node for node in blind if node})):
            raise WorkersLostError(f"train.gpus_per_worker=1: torch finds no GPU on {nodes}")
        worker_group.execute(_listen_where_ray_does)
        super().on_start(worker_group, backend_config)


def _listen_where_ray_does() -> None:
    """Gloo listens where the host's own name leads, which on Debian is 127.0.1.1: workers of other hosts would be sent
    to themselves. They reach the address by which Ray knows this node. What the operator set stays."""
    import psutil  # type: ignore[import-untyped]  # Ray's copy

    address = ray.util.get_node_ip_address()
    for interface, known in psutil.net_if_addrs().items():
        if address in (each.address for each in known):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)


def _without_gpu() -> str:
    """This node's name if torch finds no GPU here."""
    import torch

    return "" if torch.cuda.is_available() else platform.node()
