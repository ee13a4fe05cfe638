"""jobs/reproduce.py as a user runs it: a table of tiny trainings, killed, continued, run again, extended by a table."""

import json
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.jobs.sweeping import command, environment, ledger, run, summary_of

TINY = ["set=data.num_train=60", "set=data.num_val=20", "set=data.num_test=30", "set=data.num_shifted=0"]
TINY += [
    "set=train.epochs=2",
    "set=objective.warmup=1",
    "sweep.concurrency=1",
    "paper=univse_supplement",
    "scale=scenes",
]
pytestmark = [pytest.mark.slow, pytest.mark.process, pytest.mark.timeout(600)]


def test_a_killed_reproduction_continues_and_shares_its_trainings(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    started = command("reproduce", workspace, "table=4", *TINY)
    with subprocess.Popen(started, cwd=tmp_path, env=environment(), start_new_session=True) as process:
        while process.poll() is None and not any(workspace.glob("runs/*/result.json")):
            time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 143
    before = {file: file.stat().st_mtime for file in workspace.glob("runs/*/result.json")}
    summary = summary_of(run("reproduce", workspace, "table=4", *TINY))
    assert {entry["state"] for entry in ledger(summary)} >= {"finished"}
    assert all(file.stat().st_mtime == written for file, written in before.items())
    results = json.loads(summary.with_name("results.json").read_text())
    rows = results["tables"][0]["blocks"][0]["rows"]
    assert [row["reason"] for row in rows] == ["", ""]
    for row in rows:
        value, low, high = row["cells"]["rsum"]["ours"]
        assert low <= value <= high
        assert row["command"].startswith(f"python jobs/evaluate.py run={row['runs'][0]} tasks=retrieval,attacks")
    again = run("reproduce", workspace, "table=4", *TINY)
    assert "nothing is left to do" in again.stderr
    foreseen = run("reproduce", workspace, "table=2,4", "--dry-run", *TINY).stdout
    assert "univse_scenes: 2 rows; seed 0 is there (univse-scenes-s0-" in foreseen
    assert "5 trainings, 2 there, 3 to run" in foreseen
