"""The work of extraction in any process: pixels to rows of features, rows to committed shards."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from vse import registry
from vse.determinism import use_reproducible_arithmetic
from vse.features.shards import Receipt, half, write_shard
from vse.registry import ComponentConfig
from vse.storage.folder import Folder

SHARD_BYTES = 48_000_000  # of features; S3 and Parquet like tens of megabytes, and a lost node loses one shard's work


class Forward:
    """A loaded network on the best device of this process: pixels in, half-precision outputs out.

    Args:
        backbone_config: of the network.
        outputs: names of its outputs.
        batch: images per forward pass; None: 256 on a GPU, 32 on a CPU.
        precision: of `backbone.PRECISIONS`. It is the same on every machine that fills a store, and part of its name.
    """

    def __init__(
        self,
        backbone_config: ComponentConfig,
        outputs: Sequence[str],
        batch: int | None = None,
        precision: str = "float32",
    ) -> None:
        on_gpu = torch.cuda.is_available()
        self.device = torch.device("cuda" if on_gpu else "cpu")
        use_reproducible_arithmetic(self.device)
        self.batch = batch or (256 if on_gpu else 32)
        backbone: Any = registry.build("backbone", backbone_config)
        self.outputs = tuple(outputs)
        self.shapes = {name: backbone.shapes()[name] for name in self.outputs}
        self.network = backbone.load(self.outputs).prepare(self.device, precision)

    def __call__(self, pixels: np.ndarray) -> dict[str, np.ndarray]:
        """Output name -> float16 (items, *shape)."""
        if not len(pixels):
            return {name: np.empty((0, *shape), np.float16) for name, shape in self.shapes.items()}
        parts = []
        for start in range(0, len(pixels), self.batch):
            block = pixels[start : start + self.batch]
            # Ray's arrays are read-only, which torch does not wrap; a copy of pixels is cheap next to a forward pass
            block = block if block.flags.writeable else block.copy()
            features = self.network(torch.from_numpy(block))
            parts.append({name: half(value.cpu().numpy()) for name, value in features.items()})
        return {name: np.concatenate([part[name] for part in parts]) for name in self.outputs}


def shard_rows(row_bytes: int) -> int:
    """Rows of a full shard."""
    return int(np.clip(SHARD_BYTES // max(1, row_bytes), 16, 4096))


class ShardBuffer:
    """Collects rows and rejects and commits a shard whenever there are enough; `flush` commits the rest."""

    def __init__(self, folder: Folder, rows: int) -> None:
        self.folder, self.rows = folder, rows
        self._clear()

    def _clear(self) -> None:
        self._ids: list[str] = []
        self._parts: list[dict[str, np.ndarray]] = []
        self._rejects: list[tuple[str, str]] = []

    def add(
        self, ids: Sequence[str], rows: dict[str, np.ndarray], rejects: Sequence[tuple[str, str]]
    ) -> Receipt | None:
        """Add rows; returns the receipt if they completed a shard.

        Args:
            ids: images that have features.
            rows: output name -> features (len(ids), ...).
            rejects: (id, reason) of images without features.
        """
        self._ids += ids
        self._rejects += rejects
        if len(ids):
            self._parts.append(rows)
        return self.flush() if len(self._ids) >= self.rows else None

    def flush(self) -> Receipt | None:
        """Commit the remaining rows; None if there are none."""
        if not self._ids and not self._rejects:
            return None
        rows = {name: np.concatenate([part[name] for part in self._parts]) for name in (self._parts or [{}])[0]}
        receipt = write_shard(self.folder, self._ids, rows, self._rejects)
        self._clear()
        return receipt
