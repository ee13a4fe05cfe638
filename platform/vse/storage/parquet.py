"""Tables as the bytes of Parquet files, which are written whole or not at all."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def parquet_bytes(table: pa.Table, **options: Any) -> bytes:
    """The content of a Parquet file; `options` are those of pyarrow's `write_table`."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()
