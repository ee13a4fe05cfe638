"""Temporary folders that do not pile up: the next process that needs one removes those of killed processes."""

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from filelock import lock_descriptor

SETTLED = 3600.0  # seconds; the process of a younger folder may not have locked it yet
LOGS_STAY = 7 * 86400.0  # seconds for which Ray's logs of a process that failed stay readable


@contextlib.contextmanager
def scratch_folder(
    kind: str, *, root: Path | None = None, left_after: float = SETTLED, keep_failed: bool = False
) -> Iterator[Path]:
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
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
