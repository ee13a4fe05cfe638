"""NCCL for tests: a process group over the double of a GPU that takes what NCCL takes and refuses what it refuses.

What it finds: a tensor of the CPU in a collective, a type that NCCL does not know, a tensor that is not contiguous,
parts of unequal shapes or types, also where DDP sends them. What is sent goes through gloo. What it does not find:
streams, hangs, and a default device that nobody has set.
"""

import datetime
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import _create_work_from_future

from tests.gpu import DEVICE, OnGPU

NAME = "nccl_rules"
# ncclDataType_t by torch's types (torch/csrc/cuda/nccl.cpp); bool travels as bytes
TYPES = {torch.bool, torch.uint8, torch.int8, torch.int32, torch.int64}
TYPES |= {torch.float16, torch.bfloat16, torch.float32, torch.float64}


_ProcessGroup: Any = dist.ProcessGroup  # whose methods have several forms each; torch calls one of them


class Rules(_ProcessGroup):
    """The three collectives that trainings use; any other is not there."""

    def __init__(self, store: Any, rank: int, size: int, timeout: datetime.timedelta) -> None:
        super().__init__(rank, size)
        self.gloo: Any = dist.ProcessGroupGloo(store, rank, size, timeout)
        self.of_objects = False  # whether torch sends pickles, which it takes to the current GPU itself

    def getBackendName(self) -> str:  # noqa: N802  (torch's)
        return NAME

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu" if self.of_objects else DEVICE.type)]

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> Any:
        self.gloo.allreduce(self._held(tensors), opts or dist.AllreduceOptions()).wait()
        return _done(tensors)

    def broadcast(self, tensors: list[Tensor], opts: Any = None) -> Any:
        self.gloo.broadcast(self._held(tensors), opts or dist.BroadcastOptions()).wait()
        return _done(tensors)

    def allgather(self, output_tensors: list[list[Tensor]], input_tensors: list[Tensor], opts: Any = None) -> Any:
        (parts,), (mine,) = output_tensors, input_tensors
        for part in parts:
            if (part.shape, part.dtype) != (mine.shape, mine.dtype):
                raise RuntimeError(f"all_gather of {mine.dtype} {tuple(mine.shape)} into {tuple(part.shape)}")
        self.gloo.allgather([self._held(parts)], self._held([mine])).wait()
        return _done(parts)

    def _held(self, tensors: Iterable[Tensor]) -> list[Tensor]:
        """Values of tensors that NCCL would take."""
        return [self._accepted(tensor) for tensor in tensors]

    def _accepted(self, tensor: Tensor) -> Tensor:
        if self.of_objects:
            return tensor
        told = f"{tensor.dtype} {tuple(tensor.shape)}"
        if not isinstance(tensor.data, OnGPU):
            raise RuntimeError(f"a tensor of the CPU given to NCCL: {told}")
        if tensor.dtype not in TYPES:
            raise RuntimeError(f"a type that NCCL does not know: {told}")
        if not tensor.is_contiguous():
            raise RuntimeError(f"a tensor given to NCCL must be contiguous: {told}")
        return tensor.data.held


def join(store: str, rank: int, workers: int) -> None:
    """Make this process a worker of the default group, which keeps to the rules, through the file `store`."""
    groups: list[Rules] = []

    def make(*arguments: Any) -> Rules:
        groups.append(Rules(*arguments))
        return groups[0]

    dist.Backend.register_backend(NAME, make, devices=[DEVICE.type])
    timeout = datetime.timedelta(seconds=60)
    dist.init_process_group(NAME, init_method=f"file://{store}", rank=rank, world_size=workers, timeout=timeout)

    def of_objects(function: Callable[..., None]) -> Callable[..., None]:
        def called(*arguments: Any) -> None:
            groups[0].of_objects = True
            try:
                function(*arguments)
            finally:
                groups[0].of_objects = False

        return called

    for name in ("all_gather_object", "broadcast_object_list"):
        setattr(dist, name, of_objects(getattr(dist, name)))


def _done(tensors: list[Tensor]) -> Any:
    future: Any = torch.futures.Future()
    future.set_result(tensors)
    return _create_work_from_future(future)
