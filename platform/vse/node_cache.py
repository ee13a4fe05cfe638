"""Arrays that every process of a node maps from one file, made by the first who asks, within a limit of space.

What lies here can be made again. When room is needed, the arrays that were asked for longest ago go first; a process
that has one mapped keeps it, since the system frees a file's blocks when the last of its users has gone.
"""

import contextlib
import logging
import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from vse.errors import InputError
from vse.file_lock import take
from vse.storage import Folder

log = logging.getLogger(__name__)

LIMIT = "VSE_CACHE_GIB"
"""Environment variable: most GiB of a cache folder. Without it, as much as its disk has."""
Fill = Callable[[np.ndarray], None]
_UNFINISHED = ".writing-"


def mapped_array(cache: Path, place: str, shape: tuple[int, ...], dtype: Any, fill: Fill) -> np.ndarray:
    """The array `cache`/`place`.npy, mapped read-only; where it is missing or cut short, `fill` writes into a new one.

    Raises StorageError where the disk is full even without all that could go, InputError for a limit that is no number.
    """
    if 0 in shape:  # nothing can be mapped
        return np.empty(shape, dtype)
    path, limit = cache / f"{place}.npy", _limit()
    values = _open(path, shape)
    if values is None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.with_suffix(".lock").open("w") as lock:
                take(lock)  # the other processes of this node wait instead of working too
                values = _open(path, shape)
                if values is None:
                    values = _make(cache, path, shape, np.dtype(dtype), fill, limit)
        except OSError as error:
            raise Folder.open(path.parent).refusal(path.name, error) from None
    with contextlib.suppress(OSError):
        os.utime(path)  # the order in which arrays go
    return values


def make_room(cache: Path, needed: int, limit: int | None = None) -> None:
    """Remove arrays from the cache, those used longest ago first, until `needed` bytes fit its limit and its disk.

    What a living process is writing stays; what a dead one left goes before all others.
    """
    files, total = [], 0
    for file in cache.rglob("*.npy"):
        with contextlib.suppress(OSError):  # its writer has just renamed it
            unfinished, stat = file.name.startswith(_UNFINISHED), file.stat()
            total += stat.st_size
            if not (unfinished and _is_held(file)):
                files.append((0 if unfinished else stat.st_mtime_ns, stat.st_size, file))
    for _, size, file in sorted(files):
        if shutil.disk_usage(cache).free >= needed and (limit is None or total + needed <= limit):
            return
        with contextlib.suppress(OSError):
            file.unlink()
            log.info("%s: removed to make room; it is made again when it is needed", file)
        total -= size


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


def _is_held(file: Path) -> bool:
    """Whether a process is writing it."""
    with file.open("rb") as stream:
        return not take(stream, wait=0)


def _make(
    cache: Path, path: Path, shape: tuple[int, ...], dtype: np.dtype, fill: Fill, limit: int | None
) -> np.ndarray:
    """The array, mapped before it gets its name: from then on another process may remove it."""
    unfinished = path.with_name(f"{_UNFINISHED}{uuid.uuid4().hex[:12]}.npy")
    try:
        with contextlib.ExitStack() as held:
            with (cache / ".room").open("w") as room:
                take(room)  # the room that is made here is for this array alone
                make_room(cache, int(np.prod(shape)) * dtype.itemsize, limit)
                values = np.lib.format.open_memmap(unfinished, "w+", dtype=dtype, shape=shape)
                stream = held.enter_context(unfinished.open("r+b"))
                take(stream)  # until it is done, or this process is
                # Room for every page, or an error now: a mapped page that finds none kills the process (SIGBUS).
                os.posix_fallocate(stream.fileno(), 0, unfinished.stat().st_size)
            fill(values)
            values.flush()
            del values
            made = np.load(unfinished, mmap_mode="r", allow_pickle=False)
            os.replace(unfinished, path)
            return made
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)


def _open(path: Path, shape: tuple[int, ...]) -> np.ndarray | None:
    """The mapped file, None where there is none or it is shorter than it says."""
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
    except (FileNotFoundError, NotADirectoryError, ValueError, EOFError):
        return None
    return values if values.shape == shape else None
