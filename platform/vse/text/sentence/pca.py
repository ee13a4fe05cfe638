"""Principal components of more rows than fit into memory. The rows are read in blocks, several times.

With more rows than columns the covariance is summed over the blocks. With fewer, rows are written to a file on the
local disk and their inner products give the same components. Memory: the smaller of columns^2 and rows^2, and a block.
"""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float

Blocks = Callable[[], Iterable[np.ndarray]]
_IN_DOUBLE = 8192  # beyond this width the covariance is summed in single precision: 18,000 columns are 1.3 GB, not 2.6
_NOTHING = 1e-10  # variances below this share of the largest are rounding: captions that repeat each other have none
_ROWS = 1024


@dataclass(frozen=True, eq=False)
class PCA:
    """`components` (dims, columns) are orthonormal, by falling `variance`; each one's largest entry is positive."""

    mean: Float[np.ndarray, " columns"]
    components: Float[np.ndarray, "dims columns"]
    variance: Float[np.ndarray, " dims"]

    def project(self, rows: Float[np.ndarray, "n columns"]) -> Float[np.ndarray, "n dims"]:
        """Coordinates of rows about the mean of those it was fitted to."""
        return (rows - self.mean).astype(np.float32) @ self.components.T


def fit_pca(blocks: Blocks, dims: int) -> PCA:
    """Fit principal components to rows that are read in blocks.

    Args:
        blocks: called several times; yields all rows each time, as arrays of shape (n, columns).
        dims: number of components; at most rows - 1 are kept, and none without variance.

    Returns:
        The components in order of falling variance.
    """
    mean, num_rows = _mean(blocks)
    assert num_rows > 1, "components need two rows"
    most = min(dims, num_rows - 1, len(mean))
    fit = _by_rows if num_rows <= len(mean) else _by_columns
    values, components = fit(blocks, mean, num_rows, most)
    kept = values > _NOTHING * values[0] if values[0] > 0 else np.arange(len(values)) < 1
    components = components[kept]
    sign = np.sign(components[np.arange(len(components)), np.abs(components).argmax(axis=1)])
    components *= np.where(sign == 0, 1, sign)[:, None].astype(components.dtype)
    return PCA(mean.astype(np.float32), components, values[kept].astype(np.float32))


def _mean(blocks: Blocks) -> tuple[np.ndarray, int]:
    total: np.ndarray | None = None
    rows = 0
    for block in blocks():
        part = block.sum(axis=0, dtype=np.float64)
        total = part if total is None else total + part
        rows += len(block)
    assert total is not None, "no rows"
    return total / rows, rows


def _largest(matrix: torch.Tensor, most: int) -> tuple[np.ndarray, torch.Tensor]:
    """Largest eigenvalues, falling, and their vectors as rows."""
    values, vectors = torch.linalg.eigh(matrix)
    return values.flip(0)[:most].double().numpy(), vectors.T.flip(0)[:most]


def _by_columns(blocks: Blocks, mean: np.ndarray, num_rows: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    precision = torch.float64 if len(mean) <= _IN_DOUBLE else torch.float32
    covariance = torch.zeros(len(mean), len(mean), dtype=precision)
    for block in blocks():
        centred = torch.from_numpy(block - mean).to(precision)
        covariance.addmm_(centred.T, centred)
    values, vectors = _largest(covariance.div_(num_rows - 1), most)
    return values, vectors.float().contiguous().numpy()


def _by_rows(blocks: Blocks, mean: np.ndarray, num_rows: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    with tempfile.TemporaryDirectory(prefix="pca-") as folder:
        shape = (num_rows, len(mean))
        rows = np.lib.format.open_memmap(Path(folder, "rows.npy"), "w+", dtype=np.float32, shape=shape)
        at = 0
        for block in blocks():
            rows[at : at + len(block)] = block
            at += len(block)

        def centred() -> Iterator[tuple[slice, torch.Tensor]]:
            for low in range(0, num_rows, _ROWS):
                yield slice(low, low + _ROWS), torch.from_numpy(rows[low : low + _ROWS] - mean)

        products = torch.zeros(num_rows, num_rows, dtype=torch.float64)
        for one, left in centred():
            for other, right in centred():
                if other.start > one.start:
                    break
                part = left @ right.T
                products[one, other], products[other, one] = part, part.T
        values, vectors = _largest(products.div_(num_rows - 1), most)
        lengths = torch.from_numpy(np.sqrt(np.maximum(values, _NOTHING * max(values[0], 1e-300)) * (num_rows - 1)))
        components = torch.zeros(most, len(mean), dtype=torch.float32)
        for one, block in centred():
            components += ((vectors[:, one] / lengths[:, None]) @ block).float()
        del rows
    return values, components.numpy()
