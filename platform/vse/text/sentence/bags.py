"""Captions as bags of word vectors: the concatenated rows of known words, and the offset of each caption."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int

from vse.text.tokens import words


@dataclass(frozen=True, eq=False)
class Bags:
    """Rows of the known tokens of some captions: caption k has `rows[starts[k] : starts[k + 1]]`; it may be empty."""

    rows: Int[np.ndarray, " tokens"]
    starts: Int[np.ndarray, " bounds"]

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Int[np.ndarray, " captions"]:
        """Known tokens of each caption."""
        return np.diff(self.starts)

    def slice(self, low: int, high: int) -> "Bags":
        """Captions low to high - 1."""
        starts = self.starts[low : high + 1]
        return Bags(self.rows[starts[0] : starts[-1]], starts - starts[0])

    def sums(self, values: Float[np.ndarray, "words dim"]) -> Float[np.ndarray, "captions dim"]:
        """Sum of the rows of `values` over the tokens of each caption; zero for a caption without tokens."""
        summed = torch.nn.functional.embedding_bag(
            torch.from_numpy(self.rows), torch.from_numpy(values), torch.from_numpy(self.starts[:-1]), mode="sum"
        )
        return summed.numpy()


def bags_of(texts: Sequence[str], row: Mapping[str, int]) -> Bags:
    """Rows of the words of each text, in order; words that have no row are left out."""
    rows = [[row[word] for word in words(text) if word in row] for text in texts]
    flat = np.array([k for caption in rows for k in caption], dtype=np.int64)
    return Bags(flat, np.cumsum([0, *map(len, rows)], dtype=np.int64))


def mean_vectors(bags: Bags, vectors: Float[np.ndarray, "words dim"]) -> Float[np.ndarray, "captions dim"]:
    """Mean of the word vectors of each caption (Klein et al., 2015, "Mean Vector"; jWAE 5.1), zero without any."""
    return bags.sums(vectors) / np.maximum(bags.lengths, 1)[:, None].astype(vectors.dtype)
