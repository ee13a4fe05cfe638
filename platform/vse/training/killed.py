"""The ends of runs that were killed before they could tell of it: their journals would say for ever that they run."""

import contextlib
from concurrent.futures import ThreadPoolExecutor

from vse.errors import InputError
from vse.storage.folder import Folder
from vse.storage.lease import DEAD_AFTER
from vse.workspace.journal import FILE_NAME, Story, parse, read
from vse.workspace.layout import Workspace

SOON = 5.0  # seconds that a process may take to end with the Ray it belongs to
CLOCKS = 600.0  # seconds by which those of a store and of this machine may differ


def close_killed(workspace: Workspace, name: str, wait: float = DEAD_AFTER) -> None:
    """End the journal of a run whose process was killed before it could do so itself.

    Nothing happens where it has ended, or where a living process still holds the run after so many seconds; on S3 a
    dead one seems to for the term of its lease.
    """
    if _runs(read(workspace.journal(workspace.run(name)).path)):
        with contextlib.suppress(TimeoutError), workspace.run(name).locked(wait):
            end_killed(workspace, name)


def end_killed(workspace: Workspace, name: str) -> None:
    """End the journal of a run that nobody trains any more, unless it has ended."""
    journal = workspace.journal(workspace.run(name))
    if _runs(read(journal.path)):
        journal.end("killed")


def end_killed_below(workspace: Workspace, parent: str, since: float) -> None:
    """End the journals of the runs that a sweep trained when it ended, of those written `since` then (seconds since
    1970).

    The sweep is held by the caller and its processes are gone, so on S3 nobody waits for the leases they left there.
    What cannot be read or written stays as it is: the way out is no place for another error.
    """

    def end(folder: Folder) -> None:
        with contextlib.suppress(OSError, InputError):
            story = parse(folder.read_bytes(FILE_NAME))
            if story.parent != parent or not _runs(story):
                return
            with folder.locked(SOON) if folder.is_local else contextlib.nullcontext():
                end_killed(workspace, folder.name)

    with contextlib.suppress(OSError, InputError), ThreadPoolExecutor(8) as pool:
        found = workspace.root.child("runs").folders_with(FILE_NAME)
        list(pool.map(end, [folder for folder, info in found if info.written >= since - CLOCKS]))


def _runs(story: Story) -> bool:
    return bool(story.run) and story.status == "running"
