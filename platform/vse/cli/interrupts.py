"""Handlers of the signals that end a job: SIGTERM, SIGINT and SIGHUP."""

import contextlib
import signal
import sys
import threading
from collections.abc import Mapping
from functools import partial
from types import FrameType
from typing import Any, NoReturn

_received: list[int] = []  # signals to this job, in their order


def heed(job: str) -> dict[int, Any]:
    """Install the handlers; returns the old ones by signal.

    SIGTERM raises SystemExit(143), SIGHUP (lost terminal or connection) SystemExit(129), and SIGINT KeyboardInterrupt.
    Nothing changes outside the main thread, and for ignored signals, as under nohup.
    """
    ours = {signal.SIGTERM: terminated, signal.SIGHUP: terminated, signal.SIGINT: partial(_stopping, job)}
    _received.clear()
    if threading.current_thread() is not threading.main_thread():
        return {}
    heeded = [number for number in ours if signal.getsignal(number) != signal.SIG_IGN]
    return {number: signal.signal(number, ours[number]) for number in heeded}


def restore(before: Mapping[int, Any]) -> None:
    """Restore the handlers that `heed` replaced."""
    for number, handler in before.items():
        signal.signal(number, handler)


def signal_behind(error: KeyboardInterrupt | SystemExit) -> int | None:
    """The signal that ends the job, by what was received: Ray turns exits inside its calls into SystemExit(1)."""
    if _received:
        return _received[-1]
    if isinstance(error, KeyboardInterrupt):
        return signal.SIGINT
    # Ray's own handler exits with the bare signal number; ours with 128 more, as shells report it
    return signal.SIGTERM if error.code in (signal.SIGTERM, 128 + signal.SIGTERM) else None


def print_if_possible(line: str) -> None:
    """Print a line if stderr can be written: `job 2>&1 | tee log` ends `tee` too."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def terminated(number: int, frame: FrameType | None) -> NoReturn:
    """The handler of SIGTERM and SIGHUP."""
    _received.append(number)
    raise SystemExit(128 + number)


def _stopping(job: str, number: int, frame: FrameType | None) -> NoReturn:
    _received.append(number)
    print_if_possible(f"{job}: stopping")  # at once, because running work may take seconds to end
    raise KeyboardInterrupt
