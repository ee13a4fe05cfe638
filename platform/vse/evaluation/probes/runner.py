"""How probes are trained: one training for each probe and seed, in any order, in any process (`evaluation.work`).

A probe holds its data and settings as plain arrays. Its training depends on these and the seed alone.
"""

import hashlib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vse.config import fingerprint
from vse.determinism import use_reproducible_arithmetic
from vse.evaluation.work import Arrays


def digits_of(settings: Any, arrays: Mapping[str, np.ndarray]) -> str:
    """Eight hexadecimal digits over plain settings and the content of arrays."""
    hashes = {
        name: [str(array.dtype), list(array.shape), hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()]
        for name, array in arrays.items()
    }
    return fingerprint([settings, hashes])


@contextmanager
def reproducible(seed: int, device: torch.device) -> Generator[None]:
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
    """Set the learning rate of an epoch: a tenth after each third of the epochs (released code of VSE-C: 5 of 15).

    Args:
        optimizer: Its rate is set.
        epoch: Number of the epoch, from 0.
        epochs: Epochs in all.
        rate: Rate of the first third.
    """
    drops = epoch // max(1, -(-epochs // 3))
    for group in optimizer.param_groups:
        group["lr"] = rate * 0.1**drops


def as_tensor(array: np.ndarray, device: torch.device) -> Tensor:
    """A copy of an array in single precision on a device, where torch aligns it: the last bits of a product depend on
    the alignment of its factors."""
    return torch.tensor(np.asarray(array, dtype=np.float32), device=device)
