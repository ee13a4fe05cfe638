"""A sweep of many trivial trials: seconds a trial, memory, ledger, MLflow and page. Run with `-s` to see them.

VSE_BENCHMARK_TRIALS=10000 runs as many as the largest sweep that the platform is made for, in half an hour or more.
"""

import os
import resource
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.trivial_sweep import write_space
from tests.faults.processes import Family
from vse.storage.folder import Folder
from vse.sweeps.ledger import Ledger
from vse.sweeps.ledger_file import FILE_NAME

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(7200)]
TRIALS = int(os.environ.get("VSE_BENCHMARK_TRIALS", "40"))
PARTS, MANY = 10, 1000  # from so many trials on, the second half of the sweep says whether memory grows
ROOT = Path(__file__).parents[2]
KINDS: tuple[str, ...] = ("driver", "trial", "Ray", "object store")
_JOB = "from tests.benchmarks.trivial_sweep import main; main()"


def memory(family: Family) -> dict[str, float]:
    """MiB of the driver, the largest trial and Ray's own not shared with others, and of the object store."""
    found = dict.fromkeys(KINDS, 0.0)
    for process in family.alive():
        try:
            resident, shared = map(int, Path(f"/proc/{process.pid}/statm").read_text().split()[1:3])
            if "/raylet " in process.title:
                found["object store"] = in_object_store(process.pid)
        except OSError:
            continue
        size = (resident - shared) * resource.getpagesize() / 2**20
        if process.pid == family.driver:
            found["driver"] = size
        elif "ray::ImplicitFunc" in process.title:
            found["trial"] = max(found["trial"], size)
        elif not process.title.startswith("ray::"):  # a worker that waits for work is neither
            found["Ray"] += size
    return found


def in_object_store(raylet: int) -> float:
    """MiB of the shared memory of objects that have ever been written."""
    kib, mapped = 0, False
    for line in Path(f"/proc/{raylet}/smaps").read_text().splitlines():
        if line[0] in "0123456789abcdef":
            mapped = "plasma" in line
        elif mapped and line.startswith("Rss:"):
            kib += int(line.split()[1])
    return kib / 1024


def rows(database: Path) -> dict[str, int]:
    """Rows of MLflow's largest tables."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        return {
            table: connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]
            for table in ("runs", "metrics", "params", "tags")
        }


def timed(work: Callable[[], object], rounds: int = 3) -> float:
    """Median seconds."""
    spent = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        spent.append(time.perf_counter() - start)
    return statistics.median(spent)


def test_a_sweep_of_many_trials(tmp_path: Path) -> None:
    space, workspace = tmp_path / "grid.py", tmp_path / "workspace"
    write_space(space, TRIALS)
    command = [sys.executable, "-c", _JOB, "--workspace", str(workspace), f"sweep.space={space}"]
    seen, begun, ledger = list[dict[str, float]](), 0.0, None
    driver = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, start_new_session=True)
    family = Family(driver.pid)
    try:
        while driver.poll() is None:
            time.sleep(0.2)
            ledger = ledger or next(workspace.glob(f"sweeps/*/{FILE_NAME}"), None)
            if ledger is None or len(seen) == PARTS:
                continue
            begun, done = begun or time.monotonic(), ledger.read_bytes().count(b"\n")
            if done >= TRIALS * (len(seen) + 1) // PARTS:
                seen.append({**memory(family), "done": done, "seconds": time.monotonic() - begun})
                print(f"\n{done:6} trials, {seen[-1]['seconds']:5.0f} s, MiB:", end="")
                print("".join(f" {kind} {seen[-1][kind]:.0f}," for kind in KINDS), end="", flush=True)
        ended = time.time()
    finally:
        driver.kill()
    assert driver.returncode == 0
    assert ledger is not None
    folder, database = ledger.parent, workspace / "mlflow" / "mlflow.db"
    entries = Ledger(Folder.open(folder))
    written = {name: (folder / name).stat().st_mtime for name in (FILE_NAME, "report.html", "summary.json")}
    ledger_end, page, summary = written.values()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"\nreport {page - ledger_end:.0f} s, then shipping and end {ended - summary:.0f} s; ", end="")
    print(f"driver's peak {peak:.0f} MiB")
    size, page_size = ledger.stat().st_size, (folder / "report.html").stat().st_size
    print(f"ledger {size / 2**20:.2f} MiB, read in {timed(lambda: Ledger(Folder.open(folder))):.2f} s; ", end="")
    print(f"page {page_size / 2**20:.2f} MiB")
    counted = rows(database)
    print(f"MLflow {database.stat().st_size / 2**20:.0f} MiB, rows {counted}; a page of 100 runs: ", end="")
    print(", ".join(f"{name} {each:.2f} s" for name, each in searches(database, folder.name).items()))
    assert entries.states == {"finished": TRIALS}
    assert counted["runs"] == 2 * TRIALS + 1  # the sweep; of each trial, its own run and its training's
    if TRIALS >= MANY:
        half, last = seen[PARTS // 2 - 1], seen[-1]
        growth = sum(last[kind] - half[kind] for kind in ("driver", "trial"))
        assert growth / (last["done"] - half["done"]) < 0.1  # MiB a trial


def searches(database: Path, sweep: str) -> dict[str, float]:
    """Seconds of the queries of MLflow's page of runs."""
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{database}")
    (experiment,) = (each.experiment_id for each in client.search_experiments() if each.name == "vse")
    (parent,) = client.search_runs([experiment], f"tags.`vse.run_id` = '{sweep}'")
    queries: dict[str, Any] = {
        "newest": {"order_by": ["attributes.start_time DESC"]},
        "best": {"order_by": ["metrics.`val/rsum` DESC"]},
        "of the sweep": {"filter_string": f"tags.`mlflow.parentRunId` = '{parent.info.run_id}'"},
    }
    return {
        name: timed(lambda query=query: client.search_runs([experiment], max_results=100, **query))
        for name, query in queries.items()
    }
