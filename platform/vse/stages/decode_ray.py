"""Images of training batches decoded by Ray tasks, on any node of the cluster."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import ray
from ray.exceptions import RayError, RayTaskError

from vse.cluster.runtime import placement_seconds
from vse.errors import InputError, WorkersLostError, first_line
from vse.training.pixels import Pictures, Squares

AHEAD = 2  # tasks per decoder and batch, so that one slow image does not hold up all of them


def _squares(pictures: Pictures, rows: list[int], epoch: int | None) -> Squares:
    """The task."""
    return pictures.plain(rows) if epoch is None else pictures.augmented(rows, epoch)


class RayDecoder:
    """Decodes what training asks for, batch by batch, in `decoders` tasks at a time. Ray must be running.

    A pipeline of Ray Data would need all images of an epoch beforehand and start again with each epoch and each resumed
    run; a batch of a training is small and known only when it is due. Ray repeats the tasks of a lost node, which give
    the same pixels.
    """

    def __init__(self, pictures: Pictures, decoders: int) -> None:
        self.pictures, self.decoders = pictures, decoders

    def __call__(self, rows: Sequence[int], epoch: int | None = None) -> Squares:
        """Squares of the images in these rows, augmented for an epoch if there is one.

        Raises:
            InputError: an image cannot be read, or no node has a CPU for a task.
            WorkersLostError: nodes were lost again and again.
        """
        if not len(rows):
            return self.pictures.plain(rows)
        parts = [part.tolist() for part in np.array_split(np.array(rows), self.decoders * AHEAD) if len(part)]
        waiting: dict[Any, int] = {}
        squares: list[Squares | None] = [None] * len(parts)
        for place, part in enumerate(parts):
            if len(waiting) == self.decoders:
                self._take(waiting, squares)
            waiting[self._task.remote(self._shared, part, epoch)] = place
        while waiting:
            self._take(waiting, squares)
        return np.concatenate([each for each in squares if each is not None])

    def _take(self, waiting: dict[Any, int], squares: list[Squares | None]) -> None:
        """Move the result of one finished task out of `waiting`."""
        done, _ = ray.wait(list(waiting), timeout=placement_seconds())
        if not done:
            for task in waiting:
                ray.cancel(task)
            raise InputError(
                f"train.decoders={self.decoders}: no node had a CPU for a decoding task within "
                f"{placement_seconds():g} s; use fewer, or 0 to decode in the worker's own threads (train.threads)"
            )
        try:
            squares[waiting.pop(done[0])] = ray.get(done[0])
        except RayTaskError as error:
            raise error.cause from None
        except RayError as error:
            raise WorkersLostError(f"train.decoders={self.decoders}: {first_line(error)}") from None

    @cached_property
    def _task(self) -> Any:
        # SPREAD also keeps a task out of the placement group of the worker that starts it, whose CPUs are taken
        return ray.remote(_squares).options(num_cpus=1, scheduling_strategy="SPREAD")

    @cached_property
    def _shared(self) -> Any:
        return ray.put(self.pictures)
