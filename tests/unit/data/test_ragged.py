"""Ragged rows against a loop over Python lists."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vse.data.ragged import Ragged

ROWS = st.lists(st.lists(st.integers(1, 99), max_size=5), max_size=6)


@given(ROWS, st.data())
def test_pad_against_a_loop(rows, data):
    ragged = Ragged.of(rows)
    assert len(ragged) == len(rows)
    assert ragged.lengths.tolist() == [len(r) for r in rows]
    chosen = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=8)) if rows else []
    at_least = data.draw(st.integers(0, 7))
    padded, mask = ragged.pad(np.array(chosen, dtype=np.int64), at_least)
    width = max([at_least, *(len(rows[c]) for c in chosen)])
    assert padded.shape == mask.shape == (len(chosen), width)
    for line, shown, c in zip(padded, mask, chosen, strict=True):
        assert line.tolist() == rows[c] + [0] * (width - len(rows[c]))
        assert shown.tolist() == [k < len(rows[c]) for k in range(width)]


@pytest.mark.parametrize("rows", [[[(1, 2), (3, 4)], [], [(5, 6)]], [[], []], []])
def test_rows_of_tuples(rows):
    ragged = Ragged.of(rows, 2)
    padded, mask = ragged.pad(np.arange(len(rows)))
    assert padded.shape == (len(rows), max([0, *map(len, rows)]), 2)
    for r, row in enumerate(rows):
        assert [tuple(item) for item in padded[r][mask[r]].tolist()] == row
        assert [tuple(item) for item in ragged.row(r).tolist()] == row
    assert not padded[~mask].any()
