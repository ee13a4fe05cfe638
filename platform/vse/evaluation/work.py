"""Work in numbered parts that any process can do: trainings of probes, shards of an evaluation.

Work depends on what it holds and on the number of the part alone, so results can be computed on any node and kept by
their digits. Who computes them is an argument: by default this process, one after another.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

import numpy as np
import torch

Arrays = dict[str, np.ndarray]
"""A result, by name."""


class Work(ABC):
    """Something to compute that can be pickled."""

    @cached_property
    @abstractmethod
    def digits(self) -> str:
        """Fingerprint of everything that determines the results, except the number."""

    @abstractmethod
    def compute(self, number: int, device: torch.device) -> Arrays:
        """The result of a part."""


Job = tuple[Work, int]
"""Work and the number of a part: the seed of a probe, or a shard."""
Runner = Callable[[Sequence[Job], torch.device], Iterator[tuple[int, Arrays]]]
"""Yields (position of a job, its result) as jobs finish."""


class ResultStore(ABC):
    """Results of earlier computations."""

    @abstractmethod
    def read(self, name: str) -> Arrays | None:
        """The result of a name; None if it is absent or damaged."""

    @abstractmethod
    def write(self, name: str, result: Arrays) -> None:
        """Keep a result."""


def plain_map(jobs: Sequence[Job], device: torch.device) -> Iterator[tuple[int, Arrays]]:
    """Compute one job after another in this process."""
    for place, (work, number) in enumerate(jobs):
        yield place, work.compute(number, device)


def name_of(job: Job) -> str:
    """The name under which the result of a job is kept."""
    work, number = job
    return f"{work.digits}-s{number}"


def run_jobs(
    jobs: Sequence[Job], device: torch.device, runner: Runner = plain_map, kept: ResultStore | None = None
) -> list[Arrays]:
    """Results in the order of the jobs. Each is kept as soon as it is there, so an interrupted run continues.

    Args:
        jobs: What to compute.
        device: Where.
        runner: Computes the jobs that are not kept.
        kept: Where results are read and written; None to keep nothing.
    """
    names = [name_of(job) for job in jobs]
    results: dict[int, Arrays] = {}
    for number, name in enumerate(names):
        if kept is not None and (result := kept.read(name)) is not None:
            results[number] = result
    missing = [number for number in range(len(jobs)) if number not in results]
    for place, result in runner([jobs[number] for number in missing], device) if missing else ():
        results[missing[place]] = result
        if kept is not None:
            kept.write(names[missing[place]], result)
    return [results[number] for number in range(len(jobs))]
