"""Small disks of their own, to be filled and to be made read-only: tmpfs mounts, where that is permitted."""

import contextlib
import os
import subprocess
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest

BALLAST = "ballast"


@dataclass(frozen=True)
class Disk:
    """A mounted tmpfs."""

    path: Path

    def fill(self, left: int) -> None:
        """Leave so many bytes (whole pages) free."""
        room = os.statvfs(self.path).f_bavail * os.statvfs(self.path).f_frsize - left
        with (self.path / BALLAST).open("wb") as stream:
            os.posix_fallocate(stream.fileno(), 0, room)

    def clear(self) -> None:
        """Make the room free again."""
        (self.path / BALLAST).unlink()

    def mode(self, how: str) -> None:
        """`ro` or `rw`, from now on and for files that are not open for writing at this moment."""
        for _ in range(100):  # a file that is being written makes it fail for a moment
            if _mount("-o", f"remount,{how}", str(self.path)).returncode == 0:
                return
        raise AssertionError(f"{self.path} cannot be remounted {how}")


def _mount(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["mount", *arguments], capture_output=True, text=True)


@contextlib.contextmanager
def small_disk(path: Path, mebibytes: int) -> Generator[Disk]:
    """A tmpfs at `path` while the body runs; skips the test where mounting is not permitted."""
    path.mkdir()
    try:
        mounted = _mount("-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(path))
    except FileNotFoundError:
        pytest.skip("no `mount` on this machine")
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
