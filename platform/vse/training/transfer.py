"""Between host and GPU without either waiting for the other: batches on their way there, numbers on their way back.

On a CPU nothing travels and nothing waits. The GPU's side was written without one at hand.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from vse.data.batches import Batch


class Transfer:
    """Brings batches to a device: on a GPU from pinned memory, in a stream of its own beside the step that runs."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def pinned(self, batch: Batch) -> Batch:
        """The batch as a GPU copies it without the processor; to be made where batches are, ahead of the step."""
        if self.stream is None:
            return batch
        return {name: value.pin_memory() for name, value in batch.items()}

    def sent(self, batch: Batch) -> Batch:
        """The batch on the device; what is computed from now on finds it there."""
        if self.stream is None:
            return {name: value.to(self.device) for name, value in batch.items()}
        with torch.cuda.stream(self.stream):
            there = {name: value.to(self.device, non_blocking=True) for name, value in batch.items()}
        computing = torch.cuda.current_stream(self.device)
        computing.wait_stream(self.stream)
        for value in there.values():
            value.record_stream(computing)  # memory of the side stream, read by this one
        return there


@dataclass(frozen=True, eq=False)
class Reading:
    """Named numbers of a step on their way to the host, in one copy. `captions`: of the step's global batch."""

    epoch: int
    step: int
    captions: int
    names: tuple[str, ...]
    values: Tensor
    arrived: torch.cuda.Event | None

    @classmethod
    def of(cls, epoch: int, step: int, captions: int, numbers: Mapping[str, Tensor]) -> "Reading":
        """Asks for the numbers, scalars on one device, and does not wait for them."""
        values, arrived = torch.stack(list(numbers.values())), None
        if values.is_cuda:
            values, arrived = values.to("cpu", non_blocking=True), torch.cuda.Event()
            arrived.record()
        return cls(epoch, step, captions, tuple(numbers), values, arrived)

    def numbers(self) -> dict[str, float]:
        """The numbers; waits until they are there, which is when their step is computed."""
        if self.arrived is not None:
            self.arrived.synchronize()
        return dict(zip(self.names, self.values.tolist(), strict=True))
