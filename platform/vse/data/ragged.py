"""Rows of unequal length in two flat arrays, so that a batch is gathered without a Python loop."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Ragged:
    """Row r is `values[offsets[r]:offsets[r + 1]]`; values may have further dimensions."""

    values: np.ndarray
    offsets: np.ndarray

    @classmethod
    def of(cls, rows: Iterable[Sequence[int] | Sequence[Sequence[int]]], width: int | None = None) -> "Ragged":
        """From Python rows of integers, or of tuples of `width` integers."""
        rows = list(rows)
        offsets = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        flat = [item for row in rows for item in row]
        shape = (len(flat),) if width is None else (len(flat), width)
        return cls(np.array(flat, dtype=np.int64).reshape(shape), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Number of items of each row."""
        return np.diff(self.offsets)

    def row(self, r: int | np.integer) -> np.ndarray:
        """One row as an array."""
        return self.values[self.offsets[r] : self.offsets[r + 1]]

    def pad(self, rows: np.ndarray, at_least: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """The given rows as one array (rows, longest, ...), zeros behind each row's end, and what exists."""
        starts, lengths = self.offsets[rows], self.offsets[rows + 1] - self.offsets[rows]
        longest = max(at_least, int(lengths.max(initial=0)))
        steps = np.arange(longest)
        mask = steps[None, :] < lengths[:, None]
        padded = np.zeros((len(rows), longest, *self.values.shape[1:]), dtype=self.values.dtype)
        padded[mask] = self.values[(starts[:, None] + steps[None, :])[mask]]
        return padded, mask
