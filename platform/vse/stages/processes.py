"""Pools of processes on this machine, which end with the process that started them."""

import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor


def process_pool(
    num_processes: int, start: Callable[[], None] | None = None, tasks_per_process: int | None = None
) -> ProcessPoolExecutor:
    """A pool of new processes, which inherit nothing of this one.

    If this process is killed, they end too. Those of the standard library would wait for work forever, because each of
    them keeps the queue open.

    Args:
        num_processes: at most.
        start: called first in each process; other processes must be able to import it.
        tasks_per_process: after which a process is replaced; None: never.
    """
    context = multiprocessing.get_context("spawn")
    return ProcessPoolExecutor(
        num_processes, context, initializer=_begin, initargs=(start,), max_tasks_per_child=tasks_per_process
    )


def main_can_be_imported() -> bool:
    """Whether a fresh process could import this one's main module; it cannot if that is a script on standard input."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    return path is None or os.path.exists(path)


def _begin(start: Callable[[], None] | None) -> None:
    threading.Thread(target=_end_with_parent, name="end with parent", daemon=True).start()
    if start is not None:
        start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "of a pool"
    parent.join()
    os._exit(1)
