"""The per-image results of a task: in memory by a key, on disk as one Parquet file."""

import io
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vse.evaluation.per_image import PerImage
from vse.storage.folder import Folder
from vse.studies.tasks import Task


class Key(NamedTuple):
    """What a table is of: a test split or a transfer's name, `attacks.WORDS` of its adversaries, `alpha_key`, a metric
    without its split."""

    split: str
    words: str
    alpha: str
    metric: str


Tables = dict[Key, np.ndarray]
"""Key -> (images, 2): expected hits and number of queries of each image."""


def alpha_key(alpha: float | None) -> str:
    """An α as tables name it; of a family without one "none"."""
    return "none" if alpha is None else f"{alpha:g}"


def packed(tables: Mapping[Key, np.ndarray]) -> bytes:
    """One row an image and metric, as Parquet: small, and open to any reader."""
    columns: dict[str, list[Any]] = {name: [] for name in (*Key._fields, "image", "hits", "queries")}
    for key, table in tables.items():
        for name, value in key._asdict().items():
            columns[name].append(np.full(len(table), value, dtype=object))
        columns["image"].append(np.arange(len(table), dtype=np.int32))
        columns["hits"].append(table[:, 0])
        columns["queries"].append(table[:, 1].astype(np.int32))
    sink, rows = io.BytesIO(), pa.table({name: np.concatenate(parts) for name, parts in columns.items()})
    pq.write_table(rows, sink, compression="zstd", compression_level=19)
    return sink.getvalue()


def read_table(task: Task, split: str, words: str, alpha: str) -> PerImage:
    """The per-image table of a finished task."""
    data = Folder.open(task.results).read_bytes(f"{task.name}.parquet")
    asked = [("split", "=", split), ("words", "=", words), ("alpha", "=", alpha)]
    rows = pq.read_table(pa.BufferReader(data), columns=["metric", "hits", "queries"], filters=asked)  # keeps order
    metric = rows.column("metric").to_numpy()
    both = np.stack([rows.column(name).to_numpy().astype(np.float64) for name in ("hits", "queries")], axis=1)
    return {str(name): both[metric == name] for name in dict.fromkeys(metric.tolist())}
