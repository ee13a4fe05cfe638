"""What the journal and its shipping cost an epoch of ten seconds. Run with `-s` to see the shares."""

import statistics
import time

import pytest

from vse.tracking.shipping import Shipper
from vse.workspace.journal import Journal
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.benchmark
EPOCH = 10.0  # seconds
NUMBERS = {f"val/number{k}": 0.5 for k in range(14)} | {f"train/loss{k}": 1.5 for k in range(6)}


def test_journal_and_shipping_cost_little_of_an_epoch(tmp_path):
    workspace = Workspace.open(str(tmp_path))
    journal = Journal(workspace.run("one").local("journal.jsonl"))
    journal.start("one", name="one", tags={"kind": "training"})
    journal.params({f"optim.key{k}": k for k in range(60)})
    shipper = Shipper(str(tmp_path))
    shipper.ship()  # makes the database
    wrote, shipped = [], []
    for epoch in range(1, 11):
        start = time.perf_counter()
        journal.metrics(NUMBERS, step=epoch)
        wrote.append(time.perf_counter() - start)
        start = time.perf_counter()
        shipper.ship()
        shipped.append(time.perf_counter() - start)
    write, ship = statistics.median(wrote), statistics.median(shipped)
    print(f"\n20 numbers an epoch: journal {1000 * write:.2f} ms, shipping {1000 * ship:.1f} ms", end="")
    print(
        f" (both {100 * (write + ship) / EPOCH:.2f} % of a {EPOCH:.0f} s epoch; shipping is the job's, not a trial's)"
    )
    assert (write + ship) / EPOCH < 0.01
