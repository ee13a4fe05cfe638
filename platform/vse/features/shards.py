"""One shard of a feature store: a Parquet file of half-precision tensors, and the receipt that commits it.

A shard is named after its ids and its rejected ids, so a retried task writes the same file again. A shard without a
receipt does not count.
"""

import functools
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vse.errors import DamagedError, InputError
from vse.storage.files import entry_of, sha256_of
from vse.storage.folder import Folder
from vse.storage.parallel_reads import read_each
from vse.storage.parquet import parquet_bytes

log = logging.getLogger(__name__)

ROW_GROUP_BYTES = 32_000_000
_SMALLEST = 2.0**-17  # the spacing of the smallest half-precision numbers is 2^-24
_DTYPES = {"float16": pa.float16(), "uint8": pa.uint8()}


@dataclass(frozen=True, slots=True)
class Output:
    """A named output: the shape of one row and its number type, float16 (features) or uint8 (masks)."""

    shape: tuple[int, ...]
    dtype: str = "float16"

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class Receipt:
    """The content of a committed shard. `file` is None if all its images were rejected."""

    name: str
    ids: tuple[str, ...]
    rejects: tuple[tuple[str, str], ...]
    file: str | None
    entry: dict[str, Any]


def half(features: np.ndarray) -> np.ndarray:
    """Half precision; values beyond its range become infinite, to be rejected with a reason rather than clipped."""
    with np.errstate(over="ignore"):
        return features.astype(np.float16)


def out_of_range(rows: Mapping[str, np.ndarray]) -> dict[int, str]:
    """Row -> reason for rows of floats whose largest value is outside the range of half precision.

    Values with fewer than 8 significant bits (as many as bfloat16 has) are too small; rows of zeros are not.
    """
    reasons: dict[int, str] = {}
    for name, values in rows.items():
        if values.dtype == np.float16 or not values.size:
            continue
        largest = np.abs(values).reshape(len(values), -1).max(axis=1)
        for row in np.flatnonzero(np.isinf(half(largest)) & np.isfinite(largest)):
            reasons.setdefault(int(row), f"{name}: too large for half precision (65504); scale all features down")
        for row in np.flatnonzero((largest > 0) & (largest < _SMALLEST)):
            reasons.setdefault(
                int(row), f"{name}: too small for half precision (values below 8e-06); scale all features up"
            )
    return reasons


def unusable(rows: Mapping[str, np.ndarray]) -> dict[int, str]:
    """Row -> reason for the rows in which an output is not finite in half precision."""
    reasons: dict[int, str] = {}
    for name, values in rows.items():
        if values.dtype == np.float16 and len(values):
            finite = np.isfinite(values).reshape(len(values), -1).all(axis=1)
            for row in np.flatnonzero(~finite):
                reasons.setdefault(int(row), f"{name}: not finite in half precision")
    return reasons


def write_shard(
    folder: Folder, ids: Sequence[str], rows: Mapping[str, np.ndarray], rejects: Sequence[tuple[str, str]] = ()
) -> Receipt:
    """Write and commit one shard. Rows that are not finite are moved to the rejects.

    Args:
        folder: of the store.
        ids: of the rows.
        rows: output name -> array (len(ids), *shape), float16 or uint8.
        rejects: (id, reason) of images that belong to the shard but have no row.
    """
    reasons = unusable(rows)
    if reasons:
        rejects = [*rejects, *((ids[row], reason) for row, reason in reasons.items())]
        keep = [row for row in range(len(ids)) if row not in reasons]
        ids, rows = [ids[row] for row in keep], {name: values[keep] for name, values in rows.items()}
    name = _name(ids, rejects)
    file, entry = None, {}
    if len(ids):
        data = _parquet(ids, rows)
        file, entry = f"{name}.parquet", entry_of(data)
        folder.write_bytes(file, data)
    receipt = Receipt(name, tuple(ids), tuple((i, r) for i, r in rejects), file, entry)
    content = {"ids": list(receipt.ids), "rejects": [list(r) for r in receipt.rejects], "file": file, "entry": entry}
    folder.write_checked(f"{name}.json", content)
    return receipt


def _parquet(ids: Sequence[str], rows: Mapping[str, np.ndarray]) -> bytes:
    columns: dict[str, Any] = {"image": pa.array(ids, pa.string())}
    bytes_per_row = 64
    for name, values in rows.items():
        assert len(values) == len(ids), f"{name}: {len(values)} rows for {len(ids)} ids"
        assert str(values.dtype) in _DTYPES, f"{name}: {values.dtype}"
        columns[name] = pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(values))
        bytes_per_row += values[0].nbytes
    # uncompressed and without dictionaries: features are noise to a compressor, and reading is 4 to 6 times faster
    return parquet_bytes(
        pa.table(columns),
        compression="none",
        use_dictionary=False,
        write_statistics=False,
        row_group_size=max(1, ROW_GROUP_BYTES // bytes_per_row),
    )


def read_receipts(folder: Folder, *, checksums: bool = True) -> Iterator[Receipt]:
    """Every committed shard by name, except shards whose file is missing or differs from its receipt.

    `checksums=False` compares sizes only and reads no file. Otherwise a file that differs is removed with a warning,
    and its images are extracted again, perhaps in shards of other names. Its receipt stays as the record of the images
    that had features (`images_without_file`).
    """
    for receipt, complete in _all_receipts(folder):
        file = receipt.file
        if complete and file is not None and checksums and folder.entry(file) != receipt.entry:
            folder.delete(file)
            log.warning("%s: damaged; extracting %d images again", folder.address(file), len(receipt.ids))
        elif complete:
            yield receipt


def images_without_file(folder: Folder) -> set[str]:
    """Images of the receipts whose file is missing or has another size."""
    return {image for receipt, complete in _all_receipts(folder) if not complete for image in receipt.ids}


def _all_receipts(folder: Folder) -> list[tuple[Receipt, bool]]:
    """Every receipt, and whether its file, if it has one, has the right size."""
    names = [name for name in folder.names() if name.startswith("shard-") and name.endswith(".json")]
    receipts = [each for each in read_each(folder, functools.partial(_receipt, folder), names) if each is not None]
    sizes = folder.sizes([each.file for each in receipts if each.file is not None])
    return [(each, each.file is None or sizes[each.file] == each.entry["bytes"]) for each in receipts]


def _receipt(folder: Folder, file: str) -> Receipt | None:
    """The receipt in a file; None if it is damaged, which counts as missing."""
    try:
        content = folder.read_json(file)
        rejects = tuple((str(i), str(r)) for i, r in content["rejects"])
        receipt = Receipt(file.removesuffix(".json"), tuple(content["ids"]), rejects, content["file"], content["entry"])
        intact = receipt.name == _name(receipt.ids, rejects)
        return receipt if intact and (receipt.file is None or receipt.entry["bytes"]) else None
    except (InputError, KeyError, TypeError, ValueError):
        return None


def _name(ids: Sequence[str], rejects: Sequence[tuple[str, str]]) -> str:
    """The shard's name. It changes if an image with a row is rejected later; the old receipt stays."""
    everything = [*sorted(ids), "", *sorted(image for image, _ in rejects)]
    return f"shard-{sha256_of(chr(10).join(everything).encode())[:16]}"


def read_shard(
    folder: Folder, file: str, outputs: Sequence[str], expected: Mapping[str, Any] | None = None
) -> dict[str, np.ndarray]:
    """The rows of a shard.

    Args:
        folder: folder of the store.
        file: name of the shard in it.
        outputs: names of the outputs to read.
        expected: the shard's entry in the manifest, whose checksum is compared; None for no comparison.

    Returns:
        Output name -> array (rows, *shape).

    Raises:
        DamagedError: the file differs from its manifest entry.
    """
    data = folder.read_bytes(file)
    if expected is not None and sha256_of(data) != expected["sha256"]:
        raise DamagedError(f"{folder.address(file)}: damaged, its checksum differs from the manifest")
    table = pq.read_table(pa.BufferReader(data), columns=list(outputs))
    return {name: _numpy(table.column(name)) for name in outputs}


def _numpy(column: pa.ChunkedArray) -> np.ndarray:
    parts = [chunk.to_numpy_ndarray() for chunk in column.chunks if len(chunk)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
