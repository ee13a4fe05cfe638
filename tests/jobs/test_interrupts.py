"""Jobs that wait within Ray, interrupted: they say so, end with the signal's status, and leave nothing that runs."""

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.faults.processes import Family, of_ray
from tests.jobs.processes import command, environment
from vse.workspace.journal import read

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SIZES = ("data.num_train=40", "data.num_val=10", "data.num_test=10", "data.num_shifted=0")
ENDLESS = ("--preset", "vsepp_tiny", *SIZES, "train.epochs=100000", "optim.schedule=constant")
SPACE = "from ray import tune\nSPACE = {'objective.margin': tune.grid_search([0.1, 0.2])}\n"
STAYS = "finished work is kept, and the same command continues from there"


def interrupted(job: str, number: int, folder: Path, *more: str) -> Path:
    """The workspace of a job that got a signal while it trained."""
    workspace = folder / "workspace"
    with (folder / "said").open("w+") as said:
        process = subprocess.Popen(
            command(job, workspace, *ENDLESS, *more),
            cwd=folder,
            env=environment(),
            stderr=said,
            start_new_session=True,
        )
        family = Family(process.pid)
        try:
            deadline = time.monotonic() + 200
            while not list(workspace.glob("runs/*/checkpoints/epoch-0002/manifest.json")):
                assert process.poll() is None, (folder / "said").read_text()
                assert time.monotonic() < deadline, (folder / "said").read_text()
                time.sleep(0.1)
            family.alive()
            process.send_signal(number)
            process.wait(60)
        finally:
            left = family.bury()
    lines = (folder / "said").read_text().splitlines()
    assert process.returncode == 128 + number, lines
    assert lines[-1] == f"{job}: stopped; {STAYS}"
    assert [p.label for p in left if not of_ray(p.title)] == []
    return workspace


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_training_of_several_workers(number: int, tmp_path: Path) -> None:
    workspace = interrupted("train", number, tmp_path, "train.workers=2")
    (journal,) = workspace.glob("runs/*/journal.jsonl")
    assert read(journal).status == "killed"


@pytest.mark.parametrize(("number", "workers"), [(signal.SIGTERM, 1), (signal.SIGINT, 2)])
def test_a_sweep(number: int, workers: int, tmp_path: Path) -> None:
    (tmp_path / "space.py").write_text(SPACE)
    space = (f"sweep.space={tmp_path / 'space.py'}", "sweep.seeds=0")
    workspace = interrupted("sweep_margin", number, tmp_path, *space, f"train.workers={workers}")
    journals = [*workspace.glob("runs/*/journal.jsonl"), *workspace.glob("sweeps/*/journal.jsonl")]
    assert len(journals) > 1
    assert {read(journal).status for journal in journals} == {"killed"}
