"""The results per image of a training: in memory by key, on disk as one Parquet file."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vse.evaluation.per_image import PerImage
from vse.storage.parquet import parquet_bytes


class Key(NamedTuple):
    """The key of a table: a test split or the name of a transfer, `attacks.WORDS` of the adversaries, an `alpha_key`,
    and a metric without its split."""

    split: str
    words: str
    alpha: str
    metric: str


Tables = dict[Key, np.ndarray]
"""Key -> (images, 2): expected hits and number of queries of each image."""


def alpha_key(alpha: float | None) -> str:
    """An α as tables name it; "none" for a family without α."""
    return "none" if alpha is None else f"{alpha:g}"


def pack(tables: Mapping[Key, np.ndarray]) -> bytes:
    """Tables as Parquet with one row per image and metric."""
    columns: dict[str, list[Any]] = {name: [] for name in (*Key._fields, "image", "hits", "queries")}
    for key, table in tables.items():
        for name, value in key._asdict().items():
            columns[name].append(np.full(len(table), value, dtype=object))
        columns["image"].append(np.arange(len(table), dtype=np.int32))
        columns["hits"].append(table[:, 0])
        columns["queries"].append(table[:, 1].astype(np.int32))
    rows = pa.table({name: np.concatenate(parts) for name, parts in columns.items()})
    return parquet_bytes(rows, compression="zstd", compression_level=19)


def unpack(data: bytes, split: str, words: str, alpha: str) -> PerImage:
    """The tables of one split, kind of words and α.

    Args:
        data: The result of `pack`.
        split: A test split, or the name of a transfer.
        words: Kind of the words of the adversaries.
        alpha: The `alpha_key`.

    Returns:
        By metric, in the order in which they were packed: (images, 2), hits and number of queries of each image. There
        are none if nothing was measured under these keys.
    """
    chosen = [("split", "=", split), ("words", "=", words), ("alpha", "=", alpha)]
    rows = pq.read_table(pa.BufferReader(data), columns=["metric", "hits", "queries"], filters=chosen)
    metric = rows.column("metric").to_numpy()
    both = np.stack([rows.column(name).to_numpy().astype(np.float64) for name in ("hits", "queries")], axis=1)
    return {str(name): both[metric == name] for name in dict.fromkeys(metric.tolist())}
