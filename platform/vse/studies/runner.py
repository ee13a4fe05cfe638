"""Runs the trainings of a study in worker processes until all are done or a time budget is spent."""

import multiprocessing
import signal
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import Tensor

from vse.cli.interrupts import terminated
from vse.config import to_dict
from vse.errors import Diverged
from vse.stages.processes import process_pool
from vse.stages.train import run_training
from vse.stages.trained import load_run
from vse.studies.measure import measure
from vse.studies.tables import pack
from vse.studies.trainings import Training, TrainingArchive
from vse.training.code import this_code
from vse.workspace.layout import Workspace

Outcome = tuple[dict[str, Any], bytes]
"""The summary of a training, and its results per image as `tables.pack` gives them, empty for one of the search."""


def perform(training: Training, workspace: str) -> Outcome:
    """Train and measure in a workspace by URI; runs in a worker process.

    A candidate of the search that diverges gets an rsum of 0. Raises Diverged for an arm that does.
    """
    opened, measured_by = Workspace.open(workspace), this_code(training.config)
    summary: dict[str, Any] = {"label": training.label, "seed": training.config.seed}
    configuration = {"configuration": to_dict(training.config)}
    try:
        result = run_training(training.config, opened)
    except Diverged as error:
        if training.splits:
            raise
        return {**summary, "diverged": str(error), "metrics": {"val/rsum": 0.0}, **configuration}, b""
    summary |= {
        "run": result.run,
        "seconds": result.seconds,
        "epochs": result.epochs,
        "best_epoch": result.best,  # shows whether a run ended before its warm-up did
        "metrics": result.metrics,
        **configuration,
        "trained_by": result.trained_by,
        "measured_by": measured_by,
    }
    if not training.splits:
        return summary, b""
    trained = load_run(result.folder)
    if isinstance(learned := getattr(trained.family, "alpha", None), Tensor):
        summary["learned_alpha"] = learned.item()
    tables, summary["alphas"] = measure(training, opened, trained)
    return summary, pack(tables)


def run_trainings(
    trainings: Iterable[Training],
    archive: TrainingArchive,
    workspace: str,
    *,
    processes: int,
    deadline: float,
    say: Callable[[str], None],
) -> bool:
    """Run the trainings that the archive lacks and add each to it as it ends.

    A training that fails is reported and does not affect the others. If a worker process is killed, for example for
    lack of memory, all trainings that were running are tried once more at the end, because the pool does not say which
    process died. An interrupt ends the running trainings as it would end those of `jobs/train.py`.

    Args:
        trainings: What to run, in this order.
        archive: Where results are kept.
        workspace: URI of the workspace in which runs are trained.
        processes: How many run at a time.
        deadline: `time.monotonic()` after which no training is started.
        say: Called with one line for each training that ends.

    Returns:
        Whether all trainings are done.
    """
    todo = [training for training in trainings if archive.summary(training) is None]
    complete, waiting, retried = True, list(reversed(todo)), list[Training]()
    while waiting:
        # A process ends after a few trainings, which returns the memory that they leave behind to the system.
        with (
            process_pool(processes, _handle_signals, tasks_per_process=4) as pool,
            _interrupts_passed_on(),
        ):
            submit = partial(pool.submit, partial(perform, workspace=workspace))
            for training, future, running in _as_they_end(submit, waiting, processes, deadline):
                error, state = future.exception(), "done"
                if error is None:
                    archive.add(training, *future.result())
                elif isinstance(error, BrokenProcessPool) and training not in retried:
                    retried.append(training)
                    waiting.insert(0, training)
                    state = "a process was killed; once more at the end"
                else:
                    complete, state = False, f"failed: {error!r}"
                say(f"{training.label} seed {training.config.seed}: {state}, {len(waiting) + running} to go")
        if time.monotonic() >= deadline:
            break
    return complete and not waiting


def _handle_signals() -> None:
    """In a worker process: SIGTERM ends the training as an interrupt would."""
    signal.signal(signal.SIGTERM, terminated)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a lost terminal signals all processes; the job ends the workers


@contextmanager
def _interrupts_passed_on() -> Generator[None]:
    """Ends the workers on an interrupt. The pool alone would wait for their trainings, which takes minutes."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        for process in multiprocessing.active_children():
            process.terminate()
        raise


def _as_they_end(
    submit: Callable[[Training], Future[Outcome]], waiting: list[Training], processes: int, deadline: float
) -> Iterator[tuple[Training, Future[Outcome], int]]:
    """(training, its future, number still running) as trainings end. Takes them from the end of `waiting`, and none
    after a process was killed."""
    running, broken = dict[Future[Outcome], Training](), False
    while True:
        while waiting and not broken and len(running) < processes and time.monotonic() < deadline:
            try:
                future = submit(waiting[-1])
            except BrokenProcessPool:
                broken = True
            else:
                running[future] = waiting.pop()
        if not running:
            return
        for future in wait(running, return_when=FIRST_COMPLETED).done:
            training = running.pop(future)
            broken = broken or isinstance(future.exception(), BrokenProcessPool)
            yield training, future, len(running)
