"""Ray's logs of a node, copied into the workspace while the node lives: `python -m vse.cluster.node_logs`.

The disk of a spot instance is lost with it, and the head's disk with `ray down`, together with the logs of a failure.
"""

import os
import signal
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from vse.cluster.liveness import RAY, is_up, session_of
from vse.errors import InputError
from vse.storage.folder import Folder
from vse.workspace.redaction import redact_log

EVERY = 60.0  # seconds; a spot instance ends 120 s after its notice
LARGEST = 64 * 2**20  # bytes at the end of a file that are kept
LONG = 2**20  # bytes; longer files are copied at doubling intervals, because S3 takes a file as a whole
SELDOM = 1800.0  # seconds; the longest of these intervals
_ENDING = {signal.SIGTERM}


@dataclass(frozen=True, slots=True)
class CopiedFile:
    """Size and time of a file at its last copy, the time of the copy, and the pause before the next one in seconds."""

    size: int
    written: float
    at: float
    pause: float = 0.0


def logs_of(workspace: str, session: str, host: str) -> Folder:
    """logs/<session>/<host> in the workspace: what Ray wrote on a node.

    This process runs on every node next to Ray, so it does without `Workspace`, which would import torch.

    Args:
        workspace: URI of the workspace.
        session: name of the folder of Ray's session.
        host: host name of the node.
    """
    return Folder.open(workspace).child("logs", session, host)


def copy_logs(session: Path, folder: Folder, copied: dict[str, CopiedFile], *, now: float, last: bool = False) -> int:
    """Copy the changed files of `session`/logs, without credentials; returns their number.

    Files that cannot be written now are retried next time.

    Args:
        session: folder of Ray's session.
        folder: for the copies.
        copied: what was copied before, by name; updated.
        now: seconds of a monotonic clock.
        last: also copy long files that were copied recently.
    """
    count = 0
    for path in sorted((session / "logs").rglob("*")):
        name = str(path.relative_to(session / "logs")).replace("/", "--")
        before = copied.get(name)
        try:
            state = path.stat()
            if not path.is_file() or (before and (before.size, before.written) == (state.st_size, state.st_mtime)):
                continue
            if before and now - before.at < before.pause and not last:
                continue
            with path.open("rb") as stream:
                if (left := state.st_size - LARGEST) > 0:
                    stream.seek(left)
                    stream.readline()  # a line without its beginning may hide a credential from redaction
                folder.write_bytes(name, redact_log(stream.read(LARGEST)))
        except (OSError, InputError):
            continue
        pause = min(SELDOM, 2 * before.pause if before and before.pause else EVERY) if state.st_size > LONG else 0.0
        copied[name] = CopiedFile(state.st_size, state.st_mtime, now, pause)
        count += 1
    return count


def follow(workspace: str, ray: Path = RAY, every: float = EVERY) -> None:
    """Copy the logs of this node until its Ray ends or SIGTERM arrives, then once more.

    All processes get SIGTERM when the machine ends, and SIGKILL 90 seconds later by systemd's defaults. SIGTERM is
    handled between copies, so no copy is cut short.

    Args:
        workspace: URI of the workspace; logs go to the folder of `logs_of`.
        ray: folder of Ray's sessions on this node.
        every: seconds between copies.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    session = session_of(ray)
    session.chmod(0o700)  # Ray makes it readable by everybody on the machine
    folder = logs_of(workspace, session.name, socket.gethostname())
    copied: dict[str, CopiedFile] = {}
    try:
        while is_up(session / "sockets" / "raylet"):
            copy_logs(session, folder, copied, now=time.monotonic())
            if signal.sigtimedwait(_ENDING, every):
                break
    finally:
        copy_logs(session, folder, copied, now=time.monotonic(), last=True)


if __name__ == "__main__":
    follow(sys.argv[1] if len(sys.argv) > 1 else os.environ["VSE_WORKSPACE"])
