"""Stands for `vse.studies.performing.perform` in processes of its own, which import it from here."""

import os
import signal
from pathlib import Path

from vse.studies.tasks import Task


def perform(task: Task) -> str:
    """Seed 0 is killed whenever it runs; each run of a task leaves a mark."""
    marks = Path(task.workspace)
    (marks / f"{task.config.seed}-{len(list(marks.glob(f'{task.config.seed}-*')))}").touch()
    if task.config.seed == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return task.name
