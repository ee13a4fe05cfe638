"""The process group of a training's workers: Ray Train's, with checks of GPUs and networks."""

import os
import platform
from typing import Any

import ray
from ray.train.torch import TorchConfig

from vse.errors import WorkersLostError

TorchBackend: Any = TorchConfig().backend_cls


class GroupConfig(TorchConfig):
    """Ray Train's own configuration, with our backend."""

    @property
    def backend_cls(self) -> type[Any]:
        return _Group


class _Group(TorchBackend):
    def on_start(self, worker_group: Any, backend_config: TorchConfig) -> None:
        """Raises WorkersLostError naming the nodes on which torch finds no GPU, for instance because of an old driver.

        NCCL would raise a traceback. A sweep retries the trial, perhaps on other nodes.
        """
        names = worker_group.execute(_without_gpu) if backend_config.backend == "nccl" else []
        if nodes := ", ".join(sorted({name for name in names if name})):
            raise WorkersLostError(f"train.gpus_per_worker=1: torch finds no GPU on {nodes}")
        worker_group.execute(_listen_where_ray_does)
        super().on_start(worker_group, backend_config)


def _listen_where_ray_does() -> None:
    """Make Gloo use the network interface of the address that Ray uses for this node, unless the operator chose one.

    Gloo would use the address of the host's name, which is 127.0.1.1 on Debian and not reachable from other hosts.
    """
    import psutil  # Ray's copy

    address = ray.util.get_node_ip_address()
    for interface, addresses in psutil.net_if_addrs().items():
        if address in (each.address for each in addresses):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", interface)


def _without_gpu() -> str:
    """This node's name if torch finds no GPU here."""
    import torch

    return "" if torch.cuda.is_available() else platform.node()
