"""Between host and GPU without either waiting for the other: batches on their way there, numbers on their way back.

On a CPU nothing travels and nothing waits.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from vse.training.batches import BLOCK, Batch, blocks, image_batch

SHARE = 1 / 3  # of a trial's memory on a GPU that features may take: the rest is for the steps


class Transfer:
    """Brings batches to a device: on a GPU from pinned memory, in a stream of its own beside the step that runs.

    part: of the GPU that this trial may use, where several share it.
    """

    def __init__(self, device: torch.device, part: float = 1.0) -> None:
        self.device, self.part = device, part
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.kept: dict[str, Tensor] = {}  # features of all images, by name

    def keep(self, name: str, features: np.ndarray) -> None:
        """Moves features (images, ...) to the GPU for good, if they fit beside the steps.

        Batches are then sent without them: `sent` looks up those of the images in `image_group`.
        """
        if not self._room_for(features.nbytes):
            return
        table = torch.from_numpy(features[:0].copy()).new_empty(features.shape, device=self.device)
        for rows in blocks(len(features), BLOCK):
            table[int(rows[0]) : int(rows[-1]) + 1] = image_batch(features, rows).to(self.device)
        self.kept[name] = table

    def _room_for(self, num_bytes: int) -> bool:
        if self.device.type != "cuda":
            return False
        torch.cuda.empty_cache()  # what an earlier trial of this process has left to torch is free
        free, whole = torch.cuda.mem_get_info(self.device)
        return num_bytes <= SHARE * min(free, self.part * whole)

    def pinned(self, batch: Batch) -> Batch:
        """The batch as a GPU copies it without the processor; to be made where batches are, ahead of the step."""
        if self.stream is None:
            return batch
        return {name: value.pin_memory() for name, value in batch.items()}

    def sent(self, batch: Batch) -> Batch:
        """The batch on the device; what is computed from now on finds it there."""
        if self.stream is None:
            return self._with_features({name: value.to(self.device) for name, value in batch.items()})
        with torch.cuda.stream(self.stream):
            there = {name: value.to(self.device, non_blocking=True) for name, value in batch.items()}
        computing = torch.cuda.current_stream(self.device)
        computing.wait_stream(self.stream)
        for value in there.values():
            value.record_stream(computing)  # memory of the side stream, read by this one
        return self._with_features(there)

    def _with_features(self, there: Batch) -> Batch:
        return there | {name: table.index_select(0, there["image_group"]) for name, table in self.kept.items()}


@dataclass(frozen=True, eq=False)
class PendingNumbers:
    """Named numbers of a step on their way to the host, in one copy. `captions`: of the step's global batch."""

    epoch: int
    step: int
    captions: int
    names: tuple[str, ...]
    values: Tensor
    arrived: torch.cuda.Event | None

    @classmethod
    def of(cls, epoch: int, step: int, captions: int, numbers: Mapping[str, Tensor]) -> "PendingNumbers":
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
