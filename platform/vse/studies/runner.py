"""Runs tasks, each in a process of its own kind, until all are done or a budget is spent: that stops cleanly between
tasks."""

import multiprocessing
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial

from vse.cli.interrupts import terminated
from vse.studies.performing import perform
from vse.studies.tasks import Task, read_summary


def run_tasks(tasks: Iterable[Task], processes: int, deadline: float, say: Callable[[str], None]) -> bool:
    """Do what is not done, `processes` at a time, starting nothing after `deadline` (monotonic); True if all is done.

    A task that fails is reported and leaves the others alone. Where a process is killed, as for want of memory, the
    tasks that ran then are done once more, after the others: nobody says whose process it was. An interrupt of this
    process ends their trainings as one of a job of their own would.
    """
    todo = [task for task in tasks if read_summary(task) is None]
    complete, waiting, again = True, list(reversed(todo)), list[Task]()
    while waiting:
        # A few tasks a process: memory that trainings leave behind goes back to the system when it ends.
        with (
            ProcessPoolExecutor(
                processes, multiprocessing.get_context("spawn"), initializer=_heed, max_tasks_per_child=4
            ) as pool,
            _interrupts_passed_on(),
        ):
            for task, error, running in _performed(partial(pool.submit, perform), waiting, processes, deadline):
                state = "done" if error is None else f"failed: {error!r}"
                if isinstance(error, BrokenProcessPool) and task not in again:
                    again.append(task)
                    waiting.insert(0, task)
                    state = "a process was killed; once more at the end"
                else:
                    complete = complete and error is None
                say(f"{task.label} seed {task.config.seed}: {state}, {len(waiting) + running} to go")
        if time.monotonic() >= deadline:
            break
    return complete and not waiting


def _heed() -> None:
    """In a process of the pool: a training that is asked to end writes so and lets its run go."""
    signal.signal(signal.SIGTERM, terminated)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # of a lost terminal all processes are told; the job asks these to end


@contextmanager
def _interrupts_passed_on() -> Iterator[None]:
    """The pool lets an interrupt through when all that runs has ended; a training takes minutes to end by itself."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        for process in multiprocessing.active_children():
            process.terminate()
        raise


def _performed(
    start: Callable[[Task], Future[str]], waiting: list[Task], processes: int, deadline: float
) -> Iterator[tuple[Task, BaseException | None, int]]:
    """(task, its error, how many still run) as tasks end. They are taken from the end of `waiting`, none any more after
    a process was killed."""
    running, broken = dict[Future[str], Task](), False
    while True:
        while waiting and not broken and len(running) < processes and time.monotonic() < deadline:
            try:
                future = start(waiting[-1])
            except BrokenProcessPool:
                broken = True
            else:
                running[future] = waiting.pop()
        if not running:
            return
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            task, error = running.pop(future), future.exception()
            broken = broken or isinstance(error, BrokenProcessPool)
            yield task, error, len(running)
