"""Whether the disk of a workspace has room for what a stage is about to write."""

import os
from pathlib import Path

from vse.errors import InputError
from vse.workspace.layout import Workspace

_GIB = 1 << 30


def check_room(workspace: Workspace, wanted: int, what: str) -> None:
    """Check that the disk has room for this many bytes, minus the features that exist already.

    Args:
        workspace: one on S3 passes.
        wanted: bytes.
        what: is written, for the message.

    Raises:
        InputError: there is no room.
    """
    if not workspace.root.is_local:
        return
    place = workspace.root.local()
    while not place.exists():
        place = place.parent
    disk = os.statvfs(place)
    free = disk.f_bavail * disk.f_frsize
    kept = sum(file.stat().st_size for file in Path(place, "features").rglob("*.parquet")) if wanted > free else 0
    if disk.f_blocks and wanted - kept > free:  # file systems over a network may not say
        raise InputError(
            f"--workspace {workspace.root}: {what} take about {wanted / _GIB:.1f} GiB, and its disk has "
            f"{free / _GIB:.1f} GiB free; make room, or name a workspace on another disk"
        )
