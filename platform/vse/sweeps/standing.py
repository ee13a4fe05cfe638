"""Where a sweep stands, for those who look on: a small file in its folder, and Ray's metrics."""

import contextlib
import time
from collections import Counter
from typing import Any

from vse.errors import InputError
from vse.prometheus import show_trials
from vse.storage import Folder
from vse.sweeps.ledger import Ledger

FILE_NAME = "standing.json"
EVERY = 2.0  # seconds between two writings


class Standing:
    """Of the trials of one kind (`label`); `total` of them are asked for in this call, where that is known.

    Written at most every two seconds and at the end; what cannot be written is left out.
    """

    def __init__(self, ledger: Ledger, label: str, total: int | None) -> None:
        self.ledger, self.label, self.total = ledger, label, total
        self._started = time.time()
        self._written = 0.0

    def show(self, done: int, running: int) -> None:
        """So many of the trials asked for have ended and so many run now."""
        states = Counter(entry.state for entry in self.ledger)
        waiting = max(0, self.total - done - running) if self.total else 0
        named = {"waiting": waiting, "running": running, "finished": states["finished"], "failed": states["failed"]}
        show_trials(self.ledger.folder.name, named)
        if time.monotonic() - self._written >= EVERY or done == self.total:
            self._written = time.monotonic()
            content = {"label": self.label, "total": self.total, "done": done, "running": running}
            with contextlib.suppress(OSError, InputError):
                times = {"started": self._started, "time": time.time()}
                self.ledger.folder.write_json(FILE_NAME, content | times)


def read_standing(folder: Folder) -> dict[str, Any] | None:
    """label, total (or None), done, running, started and time (seconds since 1970); None where nothing was written."""
    try:
        data = folder.read_json(FILE_NAME)
        known = {key: data[key] for key in ("label", "total", "done", "running", "started", "time")}
    except (FileNotFoundError, NotADirectoryError, InputError, KeyError, TypeError):
        return None
    numbers = all(isinstance(known[key], int | float) for key in ("done", "running", "started", "time"))
    return known if numbers and isinstance(known["total"], int | None) else None
