"""Keyed random numbers: SplitMix64's published outputs, and independence of whatever is not in the key."""

import numpy as np
import pytest

from vse.data import keyed


def test_mix_is_splitmix64():
    # First outputs of the reference generator seeded with 1234567.
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    states = np.array([(1234567 + k * 0x9E3779B97F4A7C15) % 2**64 for k in range(4)], dtype=np.uint64)
    assert keyed.mix(states).tolist() == published


def test_keys_differ_by_every_part_and_not_by_company():
    samples = np.arange(1000)
    base = keyed.keys(3, 1, "noun", samples)
    assert len(np.unique(base)) == 1000
    for other in (
        keyed.keys(4, 1, "noun", samples),
        keyed.keys(3, 2, "noun", samples),
        keyed.keys(3, 1, "verb", samples),
        keyed.keys(1, 3, "noun", samples),
    ):
        assert not np.intersect1d(base, other).size
    some = np.array([77, 3, 3, 999])
    np.testing.assert_array_equal(keyed.keys(3, 1, "noun", some), base[some])


def test_redrawn_seeds_belong_to_their_seed():
    assert keyed.redrawn(5, "contrast", 0) == 5
    found = {keyed.redrawn(seed, "contrast", number) for seed in range(20) for number in range(1, 20)}
    assert len(found) == 380
    assert not found & set(range(20))
    assert keyed.redrawn(5, "noun", 1) != keyed.redrawn(5, "contrast", 1)


def test_bits_are_a_prefix_of_more_bits():
    base = keyed.keys(0, 0, "x", np.arange(5))
    np.testing.assert_array_equal(keyed.bits(base, 3), keyed.bits(base, 9)[:, :3])
    assert keyed.bits(base, 0).shape == (5, 0)


def test_uniform_fills_the_unit_interval_evenly():
    draws = keyed.uniform(keyed.keys(11, 0, "u", np.arange(400)), 50).ravel()
    assert draws.min() >= 0
    assert draws.max() < 1
    counts = np.histogram(draws, bins=20, range=(0, 1))[0]
    chi_square = ((counts - 1000.0) ** 2 / 1000.0).sum()
    assert chi_square < 43.8  # 0.1 % point with 19 degrees of freedom
    rows = draws.reshape(400, 50)
    assert abs(np.corrcoef(rows[:, 0], rows[:, 1])[0, 1]) < 0.2


@pytest.mark.parametrize("num", [0, 1, 2, 97])
def test_permutation_is_one_and_changes_with_the_epoch(num):
    order = keyed.permutation(5, 0, "order", num)
    assert sorted(order.tolist()) == list(range(num))
    np.testing.assert_array_equal(order, keyed.permutation(5, 0, "order", num))
    if num > 10:
        assert not np.array_equal(order, keyed.permutation(5, 1, "order", num))
        assert not np.array_equal(order, keyed.permutation(6, 0, "order", num))
