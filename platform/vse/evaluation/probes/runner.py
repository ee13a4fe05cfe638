"""How probes are trained: one training for each probe and seed, in any order, in any process.

A probe holds its data and settings as plain arrays. Its training depends on these and the seed alone, so results can be
computed on any node, and kept by their digits. Who trains them is an argument: by default this process, one after
another.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vse.config import fingerprint
from vse.determinism import use_reproducible_arithmetic

Arrays = dict[str, np.ndarray]
"""A trained probe: its parameters by name."""


class Probe(ABC):
    """A training that can be pickled."""

    @cached_property
    @abstractmethod
    def digits(self) -> str:
        """Fingerprint of everything that decides the result, except the seed."""

    @abstractmethod
    def fit(self, seed: int, device: torch.device) -> Arrays:
        """Train with a seed."""


Job = tuple[Probe, int]
"""A probe and a seed."""
Runner = Callable[[Sequence[Job], torch.device], Iterator[tuple[int, Arrays]]]
"""Yields (position of a job, its result) as jobs finish."""


class ResultStore(ABC):
    """Results of earlier trainings."""

    @abstractmethod
    def read(self, name: str) -> Arrays | None:
        """The result of a name; None if it is absent or damaged."""

    @abstractmethod
    def write(self, name: str, result: Arrays) -> None:
        """Keep a result."""


def plain_map(jobs: Sequence[Job], device: torch.device) -> Iterator[tuple[int, Arrays]]:
    """Train one job after another in this process."""
    for number, (probe, seed) in enumerate(jobs):
        yield number, probe.fit(seed, device)


def run_probes(
    jobs: Sequence[Job], device: torch.device, runner: Runner = plain_map, kept: ResultStore | None = None
) -> list[Arrays]:
    """Results in the order of the jobs. Each is kept as soon as it is there, so an interrupted run continues.

    Args:
        jobs: Probes with seeds.
        device: Where to train.
        runner: Trains the jobs that are not kept.
        kept: Where results are read and written; None to keep nothing.
    """
    names = [f"{probe.digits}-s{seed}" for probe, seed in jobs]
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


def digits_of(settings: Any, arrays: Mapping[str, np.ndarray]) -> str:
    """Eight hexadecimal digits over plain settings and the content of arrays."""
    hashes = {
        name: [str(array.dtype), list(array.shape), hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()]
        for name, array in arrays.items()
    }
    return fingerprint([settings, hashes])


@contextmanager
def reproducible(seed: int, device: torch.device) -> Iterator[None]:
    """Initial weights from a seed, and one thread on a CPU, whose number decides the last bits of a sum."""
    use_reproducible_arithmetic(device)
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        if device.type == "cpu":
            torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)


def arrays_of(network: nn.Module) -> Arrays:
    """The parameters of a network."""
    return {name: value.detach().cpu().numpy() for name, value in network.state_dict().items()}


def load_arrays(network: nn.Module, arrays: Arrays) -> None:
    """Load what `arrays_of` gave."""
    network.load_state_dict({name: torch.from_numpy(value) for name, value in arrays.items()})


def step_rate(optimizer: torch.optim.Optimizer, epoch: int, epochs: int, rate: float) -> None:
    """Set the rate of an epoch: a tenth after each third of the epochs (released code of VSE-C: 5 of 15)."""
    drops = epoch // max(1, -(-epochs // 3))
    for group in optimizer.param_groups:
        group["lr"] = rate * 0.1**drops


def as_tensor(array: np.ndarray, device: torch.device) -> Tensor:
    """A copy of an array in single precision on a device, where torch aligns it: the last bits of a product depend on
    the alignment of its factors."""
    return torch.tensor(np.asarray(array, dtype=np.float32), device=device)
