"""Shipping a sweep of 200 trials while it grows: seconds a trial and memory do not. Run with `-s` to see them."""

import resource
import time

import pytest

from vse.tracking.shipping import Shipper
from vse.workspace.journal import Journal
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.benchmark
TRIALS, PART = 200, 50
NUMBERS = {f"test/number{k}": 0.5 for k in range(50)}


def _memory() -> float:
    """Resident memory now, in MiB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def test_time_and_memory_stay_flat_over_200_trials(tmp_path):
    workspace = Workspace.open(str(tmp_path))
    parent = Journal(workspace.sweep("sweep").local("journal.jsonl"))
    parent.start("sweep")
    shipper = Shipper(str(tmp_path))
    shipper.ship()  # makes the database
    spent, memory = [], []
    for trial in range(TRIALS):
        book = Journal(workspace.sweep("sweep").local("trials") / f"{trial}" / "journal.jsonl")
        book.start(f"sweep-{trial}", name=f"alpha={trial}", parent="sweep", tags={"kind": "alpha"})
        book.params({"model.alpha": trial, "seed": 0})
        book.metrics(NUMBERS, step=0)
        book.end()
        start = time.process_time()
        assert shipper.ship().trouble == ""
        spent.append(time.process_time() - start)
        if (trial + 1) % PART == 0:
            memory.append(_memory())
    parts = [sum(spent[k : k + PART]) / PART for k in range(0, TRIALS, PART)]
    print("\nprocessor ms a trial, by fifty:", ", ".join(f"{1000 * part:.0f}" for part in parts), end="")
    print(f"; memory after each fifty: {', '.join(f'{each:.0f}' for each in memory)} MiB")
    assert parts[-1] < 2 * parts[1]
    assert memory[-1] - memory[1] < 20
