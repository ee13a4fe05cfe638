"""Images that are entries of other files, addressed by a fragment behind the file.

- `shard.tar#bytes=512:98304`: the bytes from 512 up to 98304, exclusive; a tar archive without compression holds its
  files in this way.
- `data.parquet#row=17&column=image`: a cell of a Parquet or Arrow file. It holds bytes, or bytes and a path as the
  images of the library `datasets` do.

Any process that has the file reads one entry without the others, so extraction reads containers in all of its workers.
"""

import re
from functools import lru_cache

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from vse.data.regions import split_uri
from vse.storage import user_files
from vse.storage.files import local_path

_BYTES = re.compile(r"#bytes=(\d+):(\d+)$")
_ROW = re.compile(r"#row=(\d+)&column=(.+)$", re.DOTALL)
_ARROW_FILE = b"ARROW1"
PARQUET = b"PAR1"

TableFile = pa.Table | pq.ParquetFile


class EntryError(Exception):
    """An entry that its container does not hold, with the reason in one line."""


def bytes_uri(file: str, start: int, stop: int) -> str:
    """The address of some bytes of a file.

    Args:
        file: path or address of the file.
        start: offset of the first byte.
        stop: offset behind the last byte.
    """
    return f"{file}#bytes={start}:{stop}"


def row_uri(file: str, row: int, column: str) -> str:
    """The address of a cell of a Parquet or Arrow file.

    Args:
        file: path or address of the file.
        row: number of the row in the whole file, from 0.
        column: name of the column.
    """
    return f"{file}#row={row}&column={column}"


def split_entry(uri: str) -> tuple[str, str]:
    """(address of the container, fragment with the entry); the fragment is empty for a file of its own."""
    match = _BYTES.search(uri) or _ROW.search(uri)
    return (uri[: match.start()], match[0]) if match else (uri, "")


def file_of(uri: str) -> tuple[str, str]:
    """(address of the file that is read, fragment with the entry of it and the region of the picture)."""
    whole, region = split_uri(uri)
    file, entry = split_entry(whole)
    return file, entry + region


def read_entry(place: str, fragment: str) -> bytes | str:
    """The content of an entry, or the path of the file that a cell names in place of bytes.

    Args:
        place: path or address of the container.
        fragment: of the entry, as `split_entry` gives it.

    Raises:
        FileNotFoundError: there is no such container.
        EntryError: the container is damaged or does not hold the entry.
        OSError: the disk or file server failed.
    """
    if match := _BYTES.fullmatch(fragment):
        start, stop = int(match[1]), int(match[2])
        data = user_files.read_range(place, start, stop)
        if len(data) < stop - start:
            raise EntryError(f"its archive ends {stop - start - len(data)} bytes too early")
        return data
    match = _ROW.fullmatch(fragment)
    assert match is not None, fragment
    value = _cell(place, int(match[1]), match[2])
    if isinstance(value, dict):
        value = value.get("bytes") or value.get("path")
    if value is None:
        raise EntryError("image is null")
    if not isinstance(value, bytes | str):
        raise EntryError(f"its cell holds {type(value).__name__}, expected the bytes of an image file")
    return value


def open_table(address: str) -> TableFile:
    """A Parquet file, or the mapped table of an Arrow file. Raises ValueError or OSError if it is damaged."""
    path = user_files.local(address)
    with path.open("rb") as stream:
        head = stream.read(len(_ARROW_FILE))
    if head.startswith(PARQUET):
        return pq.ParquetFile(path)
    mapped = pa.memory_map(str(path))
    return (pa.ipc.open_file(mapped) if head == _ARROW_FILE else pa.ipc.open_stream(mapped)).read_all()


def _cell(place: str, row: int, column: str) -> object:
    changed = 0 if user_files.is_remote(place) else local_path(place).stat().st_mtime_ns
    try:
        table = _opened(place, changed)
        if not isinstance(table, pq.ParquetFile):
            return table.column(column)[row].as_py()
        for group in range(table.num_row_groups):
            number = table.metadata.row_group(group).num_rows
            if row < number:
                return _row_group(place, changed, column, group)[row].as_py()
            row -= number
    except pa.ArrowInvalid as error:
        raise EntryError(f"its file is damaged: {str(error).splitlines()[0]}") from None
    except (IndexError, KeyError):
        pass
    raise EntryError("its file has no such row or column")


@lru_cache(maxsize=4)
def _opened(place: str, changed: int) -> TableFile:
    """`open_table`, once per process and time of writing. A removed copy stays readable while it is open."""
    return open_table(place)


@lru_cache(maxsize=2)
def _row_group(place: str, changed: int, column: str, group: int) -> pa.ChunkedArray:
    """One column of a row group of a Parquet file; neighbouring images are read one after another."""
    table = _opened(place, changed)
    assert isinstance(table, pq.ParquetFile)
    return table.read_row_group(group, columns=[column]).column(column)
