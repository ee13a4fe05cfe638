"""Files that all processes of a node share: memory-mapped arrays and copies of S3 files, within a limit of space.

The first process that asks makes the file. Everything here can be made again. When room is needed, the least recently
used file is removed first. A process that has it mapped or open keeps it, since the system frees the blocks of a file
when its last user has gone.
"""

import contextlib
import io
import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from filelock import FileLock, lock_descriptor

from vse.errors import DamagedError, InputError, StorageError
from vse.storage.files import UNFINISHED, sha256_of
from vse.storage.folder import Folder

log = logging.getLogger(__name__)

LIMIT = "VSE_CACHE_GIB"
"""Environment variable: the most GiB of a cache folder; by default as much as its disk has."""
_SPARE = 0.05  # of a disk
Fill = Callable[[np.ndarray], None]
Write = Callable[[IO[bytes]], None]
# Only files in these folders are removed: the folder that a user names may hold others
_ARRAYS, _COPIES = "arrays", "copies"
_too_small = set[Path]()  # caches for which this process has warned that their limit is too low


def own_cache() -> Path:
    """The folder of this machine for copies of S3 files: `$VSE_CACHE`, else ~/.cache/vse."""
    chosen = os.environ.get("VSE_CACHE")
    return Folder.open(chosen).local() if chosen else Path.home() / ".cache" / "vse"


def mapped_array(cache: Path, place: str, shape: tuple[int, ...], dtype: Any, fill: Fill) -> np.ndarray:
    """Map arrays/`place`.npy of a cache read-only; if it is missing or cut short, make it first.

    Args:
        cache: folder of the cache.
        place: name of the array without its suffix.
        shape: of the array.
        dtype: of the array.
        fill: writes the values into a new array.

    Raises:
        StorageError: the disk is full although everything that may be removed is gone.
        InputError: `$VSE_CACHE_GIB` is not a number above 0.
    """
    if 0 in shape:  # nothing can be mapped
        return np.empty(shape, dtype)
    path, limit = cache / _ARRAYS / f"{place}.npy", _limit()
    values = _open(path, shape, np.dtype(dtype))
    if values is None:
        with _alone(path):
            values = _open(path, shape, np.dtype(dtype))
            if values is None:
                values = _make(cache, path, shape, np.dtype(dtype), fill, limit)
    _note_use(path)
    return values


def copied_file(place: str, name: str, size: int, write: Write) -> Path:
    """A file in the cache of this node; if it is missing or cut short, make it first.

    The caller opens it at once: later it may have been removed to make room.

    Args:
        place: folder of the file, a digest of its content or origin.
        name: of the file.
        size: in bytes.
        write: writes the content of a new file.

    Raises:
        StorageError, InputError: as for `mapped_array`.
    """
    cache, limit = own_cache(), _limit()
    path = cache / _COPIES / place / name
    if not _is_whole(path, size):
        with _alone(path.parent):
            if not _is_whole(path, size):
                path.parent.mkdir(exist_ok=True)
                with _new_file(cache, path, size, limit) as (_, stream):
                    write(stream)
                    stream.flush()
                    os.fsync(stream.fileno())
    _note_use(path)
    return path


def write_note(place: str, text: str) -> None:
    """Keep a short text for the copies in `place`; it stays when they are removed."""
    Folder.open(own_cache() / _COPIES).write_text(f"{place}.txt", text)


def read_note(place: str) -> str:
    """The text of `write_note`; empty if there is none."""
    try:
        return Folder.open(own_cache() / _COPIES).read_text(f"{place}.txt")
    except FileNotFoundError:
        return ""


def committed_path(folder: Folder, manifest: Mapping[str, Any], name: str) -> Path:
    """A local path of a file that a manifest names; a file on S3 is copied to this node and checked on the way.

    The caller opens it at once: later the copy may have been removed to make room.

    Args:
        folder: of the file.
        manifest: with the size and SHA-256 of the file.
        name: of the file.

    Raises:
        FileNotFoundError, DamagedError: as for `read_committed`, if the file is copied.
        StorageError, InputError: as for `copied_file`.
    """
    if folder.is_local:
        return folder.local(name)
    size, digest = manifest["files"][name]["bytes"], manifest["files"][name]["sha256"]

    def fetch(stream: IO[bytes]) -> None:
        stream.write(read_checked(folder, manifest, name))

    return copied_file(digest[:24], name, size, fetch)


def read_committed(folder: Folder, manifest: Mapping[str, Any], name: str) -> bytes:
    """Read a file that a manifest names and compare its checksum; a file on S3 is kept in the cache of this node.

    Args:
        folder: of the file.
        manifest: with the size and SHA-256 of the file.
        name: of the file.

    Raises:
        FileNotFoundError: it is missing or cut short.
        DamagedError: its content differs from the manifest.
        InputError: the disk of the cache returns other bytes than were written.
    """
    if folder.is_local:
        return read_checked(folder, manifest, name)
    for _ in range(2):
        path = committed_path(folder, manifest, name)
        data = path.read_bytes()
        if sha256_of(data) == manifest["files"][name]["sha256"]:
            return data
        path.unlink(missing_ok=True)  # damaged on this disk
    raise InputError(f"{own_cache()}: files read back differently than they were written; check that disk")


def read_checked(folder: Folder, manifest: Mapping[str, Any], name: str) -> bytes:
    """Like `read_committed`, without keeping a copy of a file on S3.

    Args:
        folder: of the file.
        manifest: with the size and SHA-256 of the file.
        name: of the file.

    Raises:
        FileNotFoundError: it is missing or cut short.
        DamagedError: its content differs from the manifest.
    """
    data, entry = folder.read_bytes(name), manifest["files"][name]
    if len(data) != entry["bytes"]:
        raise FileNotFoundError(folder.address(name))
    if sha256_of(data) != entry["sha256"]:
        raise DamagedError(f"{folder.address(name)}: damaged, its checksum differs from the manifest")
    return data


def make_room(cache: Path, needed: int, limit: int | None = None) -> None:
    """Remove the least recently used arrays and copies until a new file fits the cache's limit and its disk.

    Of the disk, which Ray and others may share, `_SPARE` stays free as long as there is something to remove. Files that
    a living process is writing stay. Unfinished files of dead processes go first.

    Args:
        cache: folder of the cache.
        needed: bytes of the new file.
        limit: most bytes of the cache, the new file included; None: only the disk limits it. A limit that is too low is
            warned of once for each cache.
    """
    files, total = [], 0
    for file in {*(cache / _ARRAYS).rglob("*.npy"), *(cache / _COPIES).glob("*/*")}:
        with contextlib.suppress(OSError):  # its writer has just renamed it
            unfinished, stat = file.name.startswith(UNFINISHED), file.stat()
            total += stat.st_size
            if not (unfinished and _is_locked(file)):
                files.append((0 if unfinished else stat.st_atime_ns, stat.st_size, file))
    for _, size, file in sorted(files):
        disk = shutil.disk_usage(cache)
        if disk.free - _SPARE * disk.total >= needed and (limit is None or total + needed <= limit):
            return
        with contextlib.suppress(OSError):
            file.unlink()
            log.info("%s: removed to make room; it is made again if needed", file)
        total -= size
    if limit is not None and total + needed > limit and cache not in _too_small:
        _too_small.add(cache)
        log.warning(
            "%s=%.3g: less than the %.3g GiB that are in use at the same time in %s; raise it, so that "
            "fewer files are copied again",
            LIMIT,
            limit / 2**30,
            (total + needed) / 2**30,
            cache,
        )


def _note_use(path: Path) -> None:
    """Set the time of access, by which the cache evicts. The time of writing identifies a copy and is kept."""
    with contextlib.suppress(OSError):
        os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))


@contextlib.contextmanager
def _alone(path: Path) -> Generator[None]:
    """Hold the lock of `path`, so that one process of this node makes it while others wait."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock"), fallback_to_soft=False):
            yield
    except StorageError:  # from reading the content
        raise
    except OSError as error:
        raise Folder.open(path.parent).refusal(path.name, error) from None


def _is_locked(file: Path) -> bool:
    with file.open("rb") as stream:
        return not lock_descriptor(stream.fileno(), blocking=False)


def _is_whole(path: Path, size: int) -> bool:
    try:
        return path.stat().st_size == size
    except (FileNotFoundError, NotADirectoryError):
        return False


@contextlib.contextmanager
def _new_file(cache: Path, path: Path, size: int, limit: int | None) -> Generator[tuple[Path, IO[bytes]]]:
    """A file of `size` bytes under a temporary name, locked by this process, that becomes `path` after the body.

    All blocks are reserved at the start: writing to a mapped page without one would kill the process (SIGBUS).
    """
    unfinished = path.with_name(f"{UNFINISHED}{uuid.uuid4().hex[:12]}{path.suffix}")
    try:
        with contextlib.ExitStack() as stack:
            with FileLock(cache / ".room", fallback_to_soft=False):  # no other file takes the room
                make_room(cache, size, limit)
                stream = stack.enter_context(unfinished.open("w+b"))
                lock_descriptor(stream.fileno(), blocking=False)
                if size:
                    os.posix_fallocate(stream.fileno(), 0, size)
            yield unfinished, stream
            os.replace(unfinished, path)
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)


def _limit() -> int | None:
    text = os.environ.get(LIMIT, "")
    with contextlib.suppress(ValueError, OverflowError):
        if not text or float(text) > 0:
            return int(float(text) * 2**30) if text else None
    raise InputError(f"{LIMIT}={text}: expected a number of GiB above 0")


def _make(
    cache: Path, path: Path, shape: tuple[int, ...], dtype: np.dtype, fill: Fill, limit: int | None
) -> np.ndarray:
    """The new array, mapped before it gets its name, since another process may remove it afterwards."""
    header = io.BytesIO()
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, described)
    begin = header.tell()
    with _new_file(cache, path, begin + int(np.prod(shape)) * dtype.itemsize, limit) as (unfinished, stream):
        stream.write(header.getvalue())
        stream.flush()
        values = np.memmap(unfinished, dtype, "r+", begin, shape)
        fill(values)
        values.flush()
        del values
        return np.load(unfinished, mmap_mode="r", allow_pickle=False)


def _open(path: Path, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray | None:
    """The mapped file; None if it is missing, or with a warning if it is cut short or of another shape."""
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
        if (values.shape, values.dtype) == (shape, dtype):
            return values
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, EOFError):
        pass
    log.warning("%s: damaged; recreating it", path)
    return None
