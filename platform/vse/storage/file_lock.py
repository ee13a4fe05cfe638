"""Locks between processes of one machine, on open files. The system frees them however a process ends."""

import fcntl
import math
import time
from typing import IO, Any

EVERY = 0.1  # seconds between attempts when a timeout is set


def take(file: IO[Any] | int, wait: float = math.inf) -> bool:
    """Take the lock of an open file or of a descriptor, which is freed when it is closed; False where another process
    keeps it for `wait` seconds."""
    if math.isinf(wait):
        fcntl.flock(file, fcntl.LOCK_EX)
        return True
    deadline = time.monotonic() + wait
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(EVERY)
