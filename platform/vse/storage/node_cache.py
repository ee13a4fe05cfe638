"""Arrays that all processes of a node map from one file, and copies of S3 files that they share: made by the first
process that asks, within a limit of space.

Everything here can be made again. When room is needed, the least recently used goes first; a process that has it
mapped or open keeps it, since the system frees a file's blocks when the last of its users has gone.
"""

import contextlib
import io
import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from filelock import FileLock, lock_descriptor

from vse.errors import DamagedError, InputError, StorageError
from vse.storage.files import sha256_of
from vse.storage.folder import Folder

log = logging.getLogger(__name__)

LIMIT = "VSE_CACHE_GIB"
"""Environment variable: most GiB of a cache folder. Without it, as much as its disk has."""
Fill = Callable[[np.ndarray], None]
Write = Callable[[IO[bytes]], None]
# Folders of our own: what else lies in the one that a user names, arrays among it, is not ours to remove
_ARRAYS, _COPIES = "arrays", "copies"
_UNFINISHED = ".writing-"
_too_small = set[Path]()  # caches whose limit was found so in this process, and said to be


def own_cache() -> Path:
    """Where this machine keeps copies of what lies on S3: `$VSE_CACHE`, else ~/.cache/vse."""
    chosen = os.environ.get("VSE_CACHE")
    return Folder.open(chosen).local() if chosen else Path.home() / ".cache" / "vse"


def mapped_array(cache: Path, place: str, shape: tuple[int, ...], dtype: Any, fill: Fill) -> np.ndarray:
    """The array arrays/`place`.npy of the cache, mapped read-only; where it is missing or cut short, `fill` writes into
    a new one.

    Raises StorageError where the disk is full even without all that could go, InputError for a limit that is no number.
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
    """The file `name` of `size` bytes, kept under `place`, which says what is in it; where it is missing or cut short,
    `write` fills a new one. Whoever asks opens it soon: later it may have made room for others.

    Raises as `mapped_array` does.
    """
    cache, limit = own_cache(), _limit()
    path = cache / _COPIES / place / name
    if not _is_whole(path, size):
        with _alone(path.parent):
            if not _is_whole(path, size):
                path.parent.mkdir(exist_ok=True)
                _write(cache, path, size, write, limit)
    _note_use(path)
    return path


def write_note(place: str, text: str) -> None:
    """A word beside the copies under `place`, which stays when they make room."""
    Folder.open(own_cache() / _COPIES).write_text(f"{place}.txt", text)


def read_note(place: str) -> str:
    """What `write_note` wrote; empty where nothing is there."""
    try:
        return Folder.open(own_cache() / _COPIES).read_text(f"{place}.txt")
    except FileNotFoundError:
        return ""


def committed_path(folder: Folder, manifest: Mapping[str, Any], name: str) -> Path:
    """Where this machine has a file that a manifest names; one of S3 is copied to this node, by its checksum, which is
    taken on the way. Whoever asks opens it soon.

    Raises as `read_committed` and `copied_file` do.
    """
    if folder.is_local:
        return folder.local(name)
    size, digest = manifest["files"][name]["bytes"], manifest["files"][name]["sha256"]

    def fetch(stream: IO[bytes]) -> None:
        stream.write(read_checked(folder, manifest, name))

    return copied_file(digest[:24], name, size, fetch)


def read_committed(folder: Folder, manifest: Mapping[str, Any], name: str) -> bytes:
    """A file that a manifest names, its checksum taken as it is read; a file of S3 stays on this node by its checksum.

    Raises FileNotFoundError where it is missing or cut short, DamagedError where it is damaged otherwise.
    """
    if folder.is_local:
        return read_checked(folder, manifest, name)
    for _ in range(2):
        path = committed_path(folder, manifest, name)
        data = path.read_bytes()
        if sha256_of(data) == manifest["files"][name]["sha256"]:
            return data
        path.unlink(missing_ok=True)  # damaged on this disk
    raise InputError(f"{own_cache()}: what is written there reads back altered; is that disk failing?")


def read_checked(folder: Folder, manifest: Mapping[str, Any], name: str) -> bytes:
    """The same for what a node needs but once: no copy of a file of S3 stays there."""
    data, entry = folder.read_bytes(name), manifest["files"][name]
    if len(data) != entry["bytes"]:
        raise FileNotFoundError(folder.address(name))
    if sha256_of(data) != entry["sha256"]:
        raise DamagedError(f"{folder.address(name)}: damaged, its checksum differs from the manifest")
    return data


def make_room(cache: Path, needed: int, limit: int | None = None) -> None:
    """Remove arrays and copies, those used longest ago first, until `needed` bytes fit the cache's limit and its disk.

    What a living process is writing stays; what a dead one left goes before all others.
    """
    files, total = [], 0
    for file in {*(cache / _ARRAYS).rglob("*.npy"), *(cache / _COPIES).glob("*/*")}:
        with contextlib.suppress(OSError):  # its writer has just renamed it
            unfinished, stat = file.name.startswith(_UNFINISHED), file.stat()
            total += stat.st_size
            if not (unfinished and _is_locked(file)):
                files.append((0 if unfinished else stat.st_atime_ns, stat.st_size, file))
    for _, size, file in sorted(files):
        if shutil.disk_usage(cache).free >= needed and (limit is None or total + needed <= limit):
            return
        with contextlib.suppress(OSError):
            file.unlink()
            log.info("%s: removed to make room; it is made again when it is needed", file)
        total -= size
    if limit is not None and total + needed > limit and cache not in _too_small:
        _too_small.add(cache)
        log.warning(
            "%s=%.3g: less than the %.3g GiB used at once in %s; what is beyond it is kept, and often made again",
            LIMIT,
            limit / 2**30,
            (total + needed) / 2**30,
            cache,
        )


def _note_use(path: Path) -> None:
    """Set the time by which the order goes. When the file was written stays: by that, copies are known."""
    with contextlib.suppress(OSError):
        os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    """The only process of this node that makes `path`; the others wait instead of working too."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(path.with_suffix(".lock"), fallback_to_soft=False):
            yield
    except StorageError:  # of what is read to fill it
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
def _new_file(cache: Path, path: Path, size: int, limit: int | None) -> Iterator[tuple[Path, IO[bytes]]]:
    """A file of `size` bytes under another name, locked by this process, that becomes `path` after the body.

    All its blocks are reserved, or there is an error now: a mapped page without one kills the process (SIGBUS).
    """
    unfinished = path.with_name(f"{_UNFINISHED}{uuid.uuid4().hex[:12]}{path.suffix}")
    try:
        with contextlib.ExitStack() as stack:
            with FileLock(cache / ".room", fallback_to_soft=False):  # the room is for this file alone
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


def _write(cache: Path, path: Path, size: int, write: Write, limit: int | None) -> None:
    with _new_file(cache, path, size, limit) as (_, stream):
        write(stream)
        stream.flush()
        os.fsync(stream.fileno())


def _limit() -> int | None:
    text = os.environ.get(LIMIT, "")
    if not text:
        return None
    try:
        gib = float(text)
    except ValueError:
        gib = -1.0
    if not gib > 0:
        raise InputError(f"{LIMIT}={text}: expected a number of GiB above 0")
    return int(gib * 2**30)


def _make(
    cache: Path, path: Path, shape: tuple[int, ...], dtype: np.dtype, fill: Fill, limit: int | None
) -> np.ndarray:
    """The array, mapped before it gets its name: from then on another process may remove it."""
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
    """The mapped file, None where there is none or, with a warning, where it is shorter than it says."""
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
        if (values.shape, values.dtype) == (shape, dtype):
            return values
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, EOFError):
        pass
    log.warning("%s: damaged; made again", path)
    return None
