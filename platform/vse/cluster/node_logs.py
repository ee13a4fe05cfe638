"""Ray's logs of a node, copied into the workspace while the node lives: `python -m vse.cluster.node_logs`.

A spot instance takes its disk along, and `ray down` the head's, and with them the only account of what went wrong.
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
from vse.workspace.layout import Workspace
from vse.workspace.redaction import redact_text

EVERY = 60.0  # seconds; the notice before a spot instance goes is 120
LARGEST = 64 * 2**20  # bytes of a file that are kept: its end
LONG = 2**20  # bytes of a file that is copied at doubling intervals: a store takes it whole each time
SELDOM = 1800.0  # seconds, the longest of these
_ENDING = {signal.SIGTERM}


@dataclass(frozen=True, slots=True)
class Copied:
    """What a file was when it was copied last, when that was, and after how many seconds it may be copied again."""

    size: int
    written: float
    at: float
    pause: float = 0.0


def copy_logs(session: Path, folder: Folder, known: dict[str, Copied], *, now: float, last: bool = False) -> int:
    """Copy what has changed of `session`/logs since `known` was written, and remember it there; the number of files.
    Credentials are redacted.

    Long files that were copied lately wait, unless this is the last time. What cannot be written now is tried again the
    next time. now: seconds of a clock that never goes back.
    """
    copied = 0
    for path in sorted((session / "logs").rglob("*")):
        name = str(path.relative_to(session / "logs")).replace("/", "--")
        before = known.get(name)
        try:
            state = path.stat()
            if not path.is_file() or (before and (before.size, before.written) == (state.st_size, state.st_mtime)):
                continue
            if before and now - before.at < before.pause and not last:
                continue
            with path.open("rb") as stream:
                if (left := state.st_size - LARGEST) > 0:
                    stream.seek(left)
                    stream.readline()  # cut: the name of what stands in it may be gone
                folder.write_bytes(name, _redacted(stream.read(LARGEST)))
        except (OSError, InputError):
            continue
        pause = min(SELDOM, 2 * before.pause if before and before.pause else EVERY) if state.st_size > LONG else 0.0
        known[name] = Copied(state.st_size, state.st_mtime, now, pause)
        copied += 1
    return copied


def _redacted(data: bytes) -> bytes:
    """A log without credentials; bytes that are not UTF-8 stay."""
    return redact_text(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")


def follow(workspace: str, ray: Path = RAY, every: float = EVERY) -> None:
    """Copy to `logs/<session>/<host>` in the workspace until this node's Ray has ended, and once more then.

    So too until SIGTERM, which all processes get when the machine ends. It is taken between copies, so that none is cut
    short; without an answer SIGKILL follows, 90 seconds later where systemd has its own settings.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
    session = session_of(ray)
    session.chmod(0o700)  # Ray makes it readable by everybody on the machine
    folder = Workspace.open(workspace).logs(session.name, socket.gethostname())
    known: dict[str, Copied] = {}
    try:
        while is_up(session / "sockets" / "raylet"):
            copy_logs(session, folder, known, now=time.monotonic())
            if signal.sigtimedwait(_ENDING, every):
                break
    finally:
        copy_logs(session, folder, known, now=time.monotonic(), last=True)


if __name__ == "__main__":
    follow(sys.argv[1] if len(sys.argv) > 1 else os.environ["VSE_WORKSPACE"])
