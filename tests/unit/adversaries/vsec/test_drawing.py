"""Draws without replacement, against counting by hand."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vse.adversaries.vsec.sampler import distinct, nth_ones, shares
from vse.data import keyed


def keys(num, seed=0):
    return keyed.keys(seed, 0, "test", np.arange(num))


def test_shares_use_up_what_there_is():
    totals = np.array([[5, 0, 100], [1, 1, 1], [0, 0, 0], [9, 9, 9]])
    taken = shares(keys(4), totals, 8)
    assert (taken <= totals).all()
    assert taken.sum(1).tolist() == [8, 3, 0, 8]


def test_shares_are_even_between_kinds():
    taken = shares(keys(20_000), np.tile([300, 40, 700], (20_000, 1)), 8)
    assert np.abs(taken.mean(0) - 8 / 3).max() < 0.05


@given(st.integers(0, 12), st.integers(0, 8), st.integers(0, 5))
def test_distinct_numbers(total, wanted, seed):
    wanted = min(total, wanted)
    found = distinct(keys(7, seed), np.full(7, total), np.full(7, wanted), 8)
    for row in found:
        assert len(set(row[:wanted].tolist())) == wanted
        assert ((row[:wanted] >= 0) & (row[:wanted] < total)).all()
        assert (row[wanted:] == -1).all()


def test_every_subset_is_equally_likely():
    found = distinct(keys(30_000), np.full(30_000, 4), np.full(30_000, 2), 3)
    subsets = np.sort(found[:, :2], axis=1)
    _, counts = np.unique(subsets, axis=0, return_counts=True)
    assert len(counts) == 6
    assert np.abs(counts / 30_000 - 1 / 6).max() < 0.01


@given(st.lists(st.binary(min_size=3, max_size=3), max_size=6), st.integers(0, 30))
def test_nth_ones(rows, number):
    bits = np.array([list(row) for row in rows if any(row)], dtype=np.uint8).reshape(-1, 3)
    places = [np.flatnonzero(np.unpackbits(row, bitorder="little")) for row in bits]
    numbers = np.array([number % len(ones) for ones in places], dtype=np.int64)
    assert nth_ones(bits, numbers).tolist() == [int(o[n]) for o, n in zip(places, numbers, strict=True)]
