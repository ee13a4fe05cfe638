"""Temporary folders that do not pile up: what a killed process left goes when the next one needs such a folder."""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from vse.storage import file_lock

SETTLED = 3600.0  # seconds; a younger folder may belong to a process that has yet to lock it
LOGS_STAY = 7 * 86400.0  # seconds that what Ray wrote of a process that failed or was killed can be read


@contextlib.contextmanager
def scratch_folder(
    kind: str, *, root: Path | None = None, left_after: float = SETTLED, keep_failed: bool = False
) -> Iterator[Path]:
    """A folder `vse-<kind>-...` for the body, gone afterwards; with `keep_failed` it stays where the body raises.

    Folders of the same kind that were left at least `left_after` seconds ago by processes that are no more are removed
    first. Every folder is locked by its process, so that those of living ones are known, also of other containers that
    share the disk.
    """
    root = root or Path(tempfile.gettempdir())
    _remove_left(root, f"vse-{kind}-", left_after)
    folder = Path(tempfile.mkdtemp(prefix=f"vse-{kind}-", dir=root))
    failed = True
    with _opened(folder) as lock:
        with contextlib.suppress(OSError):  # a file system without locks; nothing there is taken for left
            file_lock.take(lock, wait=0)
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
                if file_lock.take(lock, wait=0):
                    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
