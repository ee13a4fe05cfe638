"""Files of region proposals: Parquet or .npz, boxes by image id in order of rank.

Parquet: a row for each box, with the columns `image` (id), `left`, `top`, `right`, `bottom` (fractions of width and
height in [0, 1]); rows of one image in order of rank. `.npz`: one array (boxes, 4) of the same sides for each image, by
the image's id.
"""

import io
import zipfile
import zlib
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vse.data.regions import cleaned
from vse.errors import InputError
from vse.storage import user_files
from vse.storage.parquet import parquet_bytes

COLUMNS = ("left", "top", "right", "bottom")
_SCHEMA = pa.schema([("image", pa.string()), *((name, pa.float64()) for name in COLUMNS)])
_TOLERANCE = 1e-3  # by which sides may leave [0, 1], for tools that count in pixels


def read_proposals(address: str) -> dict[str, np.ndarray]:
    """Boxes (boxes, 4) of each image, in order of rank, without repetitions.

    Args:
        address: Path or s3:// address of a .npz or Parquet file.

    Raises:
        InputError: The file is missing or damaged, or a box is not inside its image.
    """
    data = user_files.read(address)
    by_image = _of_npz(data, address) if data.startswith(b"PK") else _of_parquet(data, address)
    return {image: _checked(boxes, f"{address}: image {image!r}") for image, boxes in by_image.items()}


def _of_npz(data: bytes, address: str) -> dict[str, np.ndarray]:
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{address}: is not a complete .npz file of numbers ({error})") from None


def _of_parquet(data: bytes, address: str) -> dict[str, np.ndarray]:
    try:
        table = pq.read_table(pa.BufferReader(data))
    except (pa.ArrowException, OSError):
        raise InputError(f"{address}: is neither a .npz file nor a complete Parquet file") from None
    if lacking := [name for name in _SCHEMA.names if name not in table.column_names]:
        raise InputError(f"{address}: lacks the column {lacking[0]!r}; expected {', '.join(_SCHEMA.names)}")
    try:
        table = table.select(_SCHEMA.names).cast(_SCHEMA)
    except pa.ArrowException as error:
        raise InputError(f"{address}: {error}; expected text in 'image' and numbers in the others") from None
    if not len(table):
        return {}
    boxes = np.stack([table.column(name).to_numpy() for name in COLUMNS], axis=1)
    images = table.column("image").combine_chunks().dictionary_encode()
    if images.null_count:
        raise InputError(f"{address}: a row has no image")
    index = images.indices.to_numpy(zero_copy_only=False)
    order = np.argsort(index, kind="stable")
    parts = np.split(boxes[order], np.cumsum(np.bincount(index, minlength=len(images.dictionary)))[:-1])
    return dict(zip(images.dictionary.to_pylist(), parts, strict=True))


def _checked(boxes: np.ndarray, where: str) -> np.ndarray:
    if boxes.ndim != 2 or boxes.shape[1] != 4 or boxes.dtype.kind not in "fiu":
        raise InputError(f"{where}: expected numbers of shape (boxes, 4), got {boxes.dtype} of shape {boxes.shape}")
    boxes = boxes.astype(np.float64)
    inside = (boxes >= -_TOLERANCE) & (boxes <= 1 + _TOLERANCE)
    right = inside.all(axis=1) & (boxes[:, 2:] > boxes[:, :2]).all(axis=1)
    if not right.all():
        row = int(np.flatnonzero(~right)[0])
        shown = ", ".join(f"{side:g}" for side in boxes[row])
        raise InputError(
            f"{where}: box {row} ({shown}): expected left < right and top < bottom as fractions of width and "
            "height in [0, 1]"
        )
    return cleaned(boxes)


def proposals_as_parquet(by_image: Mapping[str, np.ndarray]) -> bytes:
    """The bytes of a Parquet file of proposals."""
    boxes = np.concatenate([np.empty((0, 4)), *by_image.values()])
    images = [image for image, each in by_image.items() for _ in range(len(each))]
    columns = {"image": images} | {name: boxes[:, k] for k, name in enumerate(COLUMNS)}
    return parquet_bytes(pa.table(columns, schema=_SCHEMA), compression="zstd")
