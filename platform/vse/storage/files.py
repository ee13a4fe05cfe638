"""Files of this machine: paths as users write them, checksums, atomic writes, temporary folders that do not pile up."""

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Generator
from functools import lru_cache
from pathlib import Path
from typing import Any

from filelock import lock_descriptor

from vse.errors import InputError


def local_path(text: str) -> Path:
    """A path of this machine with `~` and `~user` expanded. Raises InputError if there is no such user."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise InputError(f"{text}: no home directory of {text.partition('/')[0]}") from None


CHECKSUM = "checksum"  # the key under which a JSON object keeps the SHA-256 of all its other content


def sha256_of(data: bytes) -> str:
    """Hexadecimal SHA-256 of bytes."""
    return hashlib.sha256(data).hexdigest()


def sha256_of_file(path: Path) -> str:
    """Hexadecimal SHA-256 of a local file, read in blocks."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def entry_of(data: bytes) -> dict[str, Any]:
    """A manifest's entry for a file with this content: its size in bytes and its SHA-256."""
    return {"bytes": len(data), "sha256": sha256_of(data)}


def as_json(value: Any) -> bytes:
    """JSON as `Folder.write_json` writes it; lone surrogates of file names are escaped. Raises ValueError for NaN."""
    return (json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode(errors="backslashreplace")


def with_checksum(value: dict[str, Any]) -> dict[str, Any]:
    """The object with the checksum of its content as the last key."""
    return {**value, CHECKSUM: sha256_of(as_json(value))}


def without_checksum(value: Any) -> Any:
    """The object without its checksum; other values as they are. Raises ValueError if the checksum differs."""
    if not isinstance(value, dict) or CHECKSUM not in value:
        return value
    content = {key: each for key, each in value.items() if key != CHECKSUM}
    if sha256_of(as_json(content)) != value[CHECKSUM]:
        raise ValueError("its checksum differs from its content")
    return content


UNFINISHED = ".writing-"  # names that start with it are unfinished writes, which no reader sees
_DIGITS = 12
_LOCKED_BY = 10.0  # seconds since its last change after which the writer of a file has locked it, or is dead


@lru_cache(maxsize=4096)
def _remove_left_over(folder: Path) -> None:
    """Remove what killed writers left in a folder; once in a process, since it lists the folder."""
    for left in folder.glob(f"{UNFINISHED}{'[0-9a-f]' * _DIGITS}-*"):
        with contextlib.suppress(OSError), left.open("r+b") as stream:
            if time.time() - left.stat().st_mtime > _LOCKED_BY and lock_descriptor(stream.fileno(), blocking=False):
                left.unlink()


def write_atomically(target: Path, data: bytes) -> None:
    """Write a file of which readers see the old content or the new one."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _remove_left_over(target.parent)
    temporary = target.with_name(f"{UNFINISHED}{uuid.uuid4().hex[:_DIGITS]}-{target.name}")
    try:
        with temporary.open("wb") as stream:
            with contextlib.suppress(OSError):  # a file system without locks: no file there is removed as left over
                lock_descriptor(stream.fileno(), blocking=False)
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())  # or a crash could leave the new name with none of the content
            os.replace(temporary, target)
        with contextlib.suppress(OSError):  # the new name survives a power cut too, if the disk can do that
            descriptor = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


SETTLED = 3600.0  # seconds; the process of a younger folder may not have locked it yet
LOGS_STAY = 7 * 86400.0  # seconds for which Ray's logs of a process that failed stay readable


@contextlib.contextmanager
def scratch_folder(
    kind: str, *, root: Path | None = None, left_after: float = SETTLED, keep_failed: bool = False
) -> Generator[Path]:
    """Make a folder `vse-<kind>-...` for the body and remove it afterwards.

    Every process locks its folder, so that the folders of living processes are recognised, also those of other
    containers that share the disk.

    Args:
        kind: part of the name. Folders of the same kind that dead processes left are removed first.
        root: where folders are made; the system's temporary folder by default.
        left_after: seconds since the last change before another process's folder may be removed.
        keep_failed: keep the folder if the body raises.
    """
    root = root or Path(tempfile.gettempdir())
    _remove_left(root, f"vse-{kind}-", left_after)
    folder = Path(tempfile.mkdtemp(prefix=f"vse-{kind}-", dir=root))
    failed = True
    with _opened(folder) as lock:
        with contextlib.suppress(OSError):  # a file system without locks: no folder there is ever removed as left over
            lock_descriptor(lock, blocking=False)
        try:
            yield folder
            failed = False
        finally:
            if not (failed and keep_failed):
                shutil.rmtree(folder, ignore_errors=True)


def _remove_left(root: Path, prefix: str, left_after: float) -> None:
    for folder in root.glob(f"{prefix}*"):
        with contextlib.suppress(OSError):  # another user's, or gone by now
            state = folder.lstat()
            if not folder.is_dir() or folder.is_symlink() or state.st_uid != os.getuid():
                continue
            if time.time() - state.st_mtime < left_after:
                continue
            with _opened(folder) as lock:
                if lock_descriptor(lock, blocking=False):
                    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _opened(folder: Path) -> Generator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
