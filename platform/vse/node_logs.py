"""Ray's logs of a node, copied into the workspace while the node lives: `python -m vse.node_logs`.

A spot instance takes its disk along, and `ray down` the head's, and with them the only account of what went wrong.
"""

import os
import socket
import sys
import time
from pathlib import Path

from vse.cluster.node_watch import is_up
from vse.errors import InputError
from vse.storage import Folder
from vse.workspace import Workspace

EVERY = 60.0  # seconds; the notice before a spot instance goes is 120
LARGEST = 64 * 2**20  # bytes of a file that are kept: its end
_RAY = Path("/tmp/ray")


def copy_logs(session: Path, folder: Folder, known: dict[str, tuple[int, float]]) -> int:
    """Copy what has changed of `session`/logs since `known` was written, and remember it there; the number of files.

    What cannot be written now is tried again the next time.
    """
    copied = 0
    for path in sorted((session / "logs").rglob("*")):
        name = str(path.relative_to(session / "logs")).replace("/", "--")
        try:
            state = path.stat()
            if not path.is_file() or known.get(name) == (state.st_size, state.st_mtime):
                continue
            with path.open("rb") as stream:
                stream.seek(max(0, state.st_size - LARGEST))
                folder.write_bytes(name, stream.read(LARGEST))
        except (OSError, InputError):
            continue
        known[name] = (state.st_size, state.st_mtime)
        copied += 1
    return copied


def follow(workspace: str, ray: Path = _RAY, every: float = EVERY) -> None:
    """Copy to `logs/<session>/<host>` in the workspace until this node's Ray has ended, and once more then."""
    session = (ray / "session_latest").resolve()
    folder = Workspace.open(workspace).logs(session.name, socket.gethostname())
    known: dict[str, tuple[int, float]] = {}
    while is_up(session / "sockets" / "raylet"):
        copy_logs(session, folder, known)
        time.sleep(every)
    copy_logs(session, folder, known)


if __name__ == "__main__":
    follow(sys.argv[1] if len(sys.argv) > 1 else os.environ["VSE_WORKSPACE"])
