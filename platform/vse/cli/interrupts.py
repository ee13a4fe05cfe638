"""Signals that ask a job to end, SIGTERM, SIGINT and SIGHUP: what they raise in it, and which one it was."""

import contextlib
import signal
import sys
import threading
from collections.abc import Mapping
from functools import partial
from types import FrameType
from typing import Any, NoReturn

_heard: list[int] = []  # signals that ask this job to end, as they came


def heed(job: str) -> dict[int, Any]:
    """From now on SIGTERM raises SystemExit(143), SIGHUP (the terminal or the connection is gone) SystemExit(129), and
    SIGINT KeyboardInterrupt; returns the handlers before, by signal.

    In another thread than the main one, and for what is ignored, as under nohup, nothing changes.
    """
    ours = {signal.SIGTERM: terminated, signal.SIGHUP: terminated, signal.SIGINT: partial(_stopping, job)}
    _heard.clear()
    if threading.current_thread() is not threading.main_thread():
        return {}
    heeded = [number for number in ours if signal.getsignal(number) != signal.SIG_IGN]
    return {number: signal.signal(number, ours[number]) for number in heeded}


def restore(before: Mapping[int, Any]) -> None:
    """Put back what `heed` replaced."""
    for number, handler in before.items():
        signal.signal(number, handler)


def signal_behind(error: KeyboardInterrupt | SystemExit) -> int | None:
    """The signal that ends the job: what was heard, since Ray makes SystemExit(1) of an exit from within its calls."""
    if _heard:
        return _heard[-1]
    if isinstance(error, KeyboardInterrupt):
        return signal.SIGINT
    # Ray's own handler exits with the bare signal number; ours with 128 more, as shells report it
    return signal.SIGTERM if error.code in (signal.SIGTERM, 128 + signal.SIGTERM) else None


def say_if_heard(line: str) -> None:
    """What is said of an interrupt: `job 2>&1 | tee log` ends `tee` too, and nothing may take the interrupt's place."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def terminated(number: int, frame: FrameType | None) -> NoReturn:
    """The handler of SIGTERM and SIGHUP."""
    _heard.append(number)
    raise SystemExit(128 + number)


def _stopping(job: str, number: int, frame: FrameType | None) -> NoReturn:
    _heard.append(number)
    say_if_heard(f"{job}: stopping")  # at once: what runs may take seconds to let go
    raise KeyboardInterrupt
