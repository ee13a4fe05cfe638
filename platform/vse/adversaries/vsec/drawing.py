"""Random draws without replacement for many rows at once, each a function of its row's key."""

import numpy as np

from vse.data import keyed


def shares(keys: np.ndarray, totals: np.ndarray, num: int) -> np.ndarray:
    """How many of `num` draws each kind gets: (rows, kinds) for totals (rows, kinds).

    Each draw takes one of the kinds that have something left, all alike; a row with fewer than `num` in all gives all.
    """
    taken = np.zeros_like(totals)
    chances = keyed.uniform(keyed.mix(keys), num)
    rows = np.arange(len(totals))
    for k in range(num):
        left = taken < totals
        number = left.sum(1)
        pick = np.minimum((chances[:, k] * number).astype(np.int64), number - 1)
        kind = ((left.cumsum(1) - 1 == pick[:, None]) & left).argmax(1)
        some = number > 0
        taken[rows[some], kind[some]] += 1
    return taken


def distinct(keys: np.ndarray, totals: np.ndarray, wanted: np.ndarray, most: int) -> np.ndarray:
    """Distinct numbers below `totals`: (rows, most), of which the first `wanted` of a row count (Floyd's algorithm)."""
    chances = keyed.uniform(keys, most)
    found = np.full((len(totals), most), -1, dtype=np.int64)
    for k in range(most):
        top = totals - wanted + k
        drawn = np.minimum((chances[:, k] * (top + 1)).astype(np.int64), top)
        again = (found[:, :k] == drawn[:, None]).any(1)
        found[:, k] = np.where(k < wanted, np.where(again, top, drawn), -1)
    return found


def nth_ones(bits: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """Position of the one with this number (from 0) in each row of packed bits (rows, bytes), lowest bit first."""
    if not len(bits):
        return np.zeros(0, dtype=np.int64)
    before = np.cumsum(np.bitwise_count(bits), axis=1, dtype=np.int64)
    byte = (before <= numbers[:, None]).sum(1)
    rows = np.arange(len(bits))
    rest = numbers - np.where(byte > 0, before[rows, np.maximum(byte - 1, 0)], 0)
    ones = np.unpackbits(bits[rows, byte][:, None], axis=1, bitorder="little").cumsum(1)
    return 8 * byte + (ones > rest[:, None]).argmax(1)
