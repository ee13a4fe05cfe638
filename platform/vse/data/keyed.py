"""Random numbers that belong to a sample, not to a process.

A draw is a pure function of (seed, epoch, purpose, sample, slot), so that any number of workers, any batch size and any
restart see the same draws. The mixing function is SplitMix64 (Steele, Lea and Flood, 2014).
"""

import zlib

import numpy as np

_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def mix(values: np.ndarray) -> np.ndarray:
    """SplitMix64's finaliser on an array of uint64; a bijection whose output passes for random bits."""
    z = values + _GAMMA
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def keys(seed: int, epoch: int, purpose: str, samples: np.ndarray) -> np.ndarray:
    """One 64-bit key for each sample, in the shape of `samples`.

    Args:
        seed: seed of the run; at least 0.
        epoch: number of the epoch; 0 for draws that stay the same.
        purpose: what the draws are for; another text gives independent keys.
        samples: numbers of the samples, such as caption numbers.
    """
    head = np.array([seed, epoch, zlib.crc32(purpose.encode())], dtype=np.uint64)
    state = np.zeros(1, dtype=np.uint64)
    for word in head:
        state = mix(state ^ word)
    return mix(state ^ samples.astype(np.uint64))


def redrawn(seed: int, purpose: str, number: int) -> int:
    """The seed of another sequence of draws that belongs to a seed.

    Args:
        seed: the seed itself.
        purpose: what the draws are for.
        number: which of the sequences; 0 gives `seed`.
    """
    return int(keys(seed, number, f"redrawn {purpose}", np.zeros(1, dtype=np.int64))[0]) if number else seed


def bits(base: np.ndarray, num: int) -> np.ndarray:
    """`num` further 64-bit draws for each key: shape (*base.shape, num)."""
    with np.errstate(over="ignore"):
        return mix(base[..., None] + (np.arange(1, num + 1, dtype=np.uint64) * np.uint64(0xD1342543DE82EF95)))


def uniform(base: np.ndarray, num: int) -> np.ndarray:
    """`num` draws in [0, 1) for each key: shape (*base.shape, num), float64."""
    return (bits(base, num) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def permutation(seed: int, epoch: int, purpose: str, num: int) -> np.ndarray:
    """A permutation of range(num), the same on every machine.

    Args:
        seed: seed of the run.
        epoch: number of the epoch; another one gives another order.
        purpose: what the order is for; another text gives an independent order.
        num: number of items.
    """
    return np.argsort(keys(seed, epoch, purpose, np.arange(num)), kind="stable")
