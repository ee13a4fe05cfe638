"""A disk that fills up, or becomes read-only, at several stages: one clear line, and the same command goes on."""

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.disks import Disk, small_disk
from tests.jobs.processes import command, environment, run, summary_of
from vse.errors import InputError, StorageError
from vse.features.shards import write_shard
from vse.features.store import FeatureStore, Output, commit
from vse.storage.folder import Folder
from vse.sweeps.ledger import Ledger
from vse.workspace.journal import Journal, read

pytestmark = pytest.mark.process

PAGE = 4096
SIZES = ("data.num_train=20", "data.num_val=6", "data.num_test=4", "data.num_shifted=0", "model.dim=32")
TRAIN = ("--preset", "vsepp_tiny", *SIZES, "train.epochs=3")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with small_disk(tmp_path / "disk", 24) as made:
        yield made


def test_a_full_disk_is_a_storage_error_in_one_line(disk: Disk) -> None:
    folder = Folder.open(disk.path / "x")
    folder.write_bytes("before", b"1")
    disk.fill(0)
    with pytest.raises(StorageError, match=r"x: cannot write after \(No space left on device\)"):
        folder.write_bytes("after", b"2" * 10 * PAGE)
    assert (folder.names(), folder.read_bytes("before")) == (("before",), b"1")


def test_a_disk_that_became_read_only(disk: Disk) -> None:
    folder = Folder.open(disk.path / "x")
    folder.write_bytes("before", b"1")
    disk.mode("ro")
    with pytest.raises(StorageError, match=r"cannot write after \(Read-only file system\)"):
        folder.write_bytes("after", b"2")
    with pytest.raises(StorageError, match="Read-only"), folder.locked():
        pytest.fail("locked")
    with pytest.raises(InputError, match="Read-only") as refused:
        folder.check_writable()
    assert "\n" not in str(refused.value)


def test_the_ledger_keeps_whole_lines(disk: Disk) -> None:
    ledger = Ledger(Folder.open(disk.path / "sweep"))
    ledger.finish({"a": 1}, {"value": 1.0}, 1.0)
    disk.fill(0)
    with pytest.raises(StorageError, match=r"ledger\.jsonl \(No space left"):
        ledger.finish({"a": 2}, {"value": "longer than the rest of its page " * 200}, 1.0)
    known = len(ledger)
    disk.clear()
    again = Ledger(ledger.folder)
    assert len(again) == known
    again.finish({"a": known + 1}, {"value": 3.0}, 1.0)
    assert len(Ledger(ledger.folder)) == known + 1


def test_the_journal_warns_once_and_goes_on(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal(disk.path / "run" / "journal.jsonl")
    journal.start("run")
    disk.fill(0)
    for step in range(1, 200):
        journal.metrics({"loss": 1.0 / step, "filler": 1.0}, step=step)
    assert [
        record.message.count("No space left") + record.message.count("could be written") for record in caplog.records
    ] == [1]
    disk.clear()
    journal.metrics({"loss": 0.5}, step=200)
    story = read(journal.path)
    assert ("loss", 1) in story.metrics
    assert ("loss", 200) in story.metrics


def test_a_cache_that_does_not_fit_is_no_bus_error(disk: Disk, tmp_path: Path) -> None:
    import numpy as np

    folder, ids = Folder.open(tmp_path / "store"), [f"i{k}" for k in range(40)]
    rows = np.random.default_rng(0).random((40, 49, 32)).astype(np.float16)
    write_shard(folder, ids, {"map": rows})
    store = commit(folder, ids, {"map": Output((49, 32))}, {})
    assert isinstance(store, FeatureStore)
    disk.fill(8 * PAGE)
    with pytest.raises(StorageError, match=r"cannot write map-\w+\.npy \(No space left"):
        store.array("map", ids, disk.path / "cache")
    assert not list(disk.path.rglob("*.npy"))
    disk.clear()
    assert np.array_equal(store.array("map", ids, disk.path / "cache"), rows)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """(workspace, summary) of the run that nothing happened to."""
    workspace = tmp_path_factory.mktemp("whole") / "workspace"
    return workspace, summary_of(run("train", workspace, *TRAIN))


def one_line(result: subprocess.CompletedProcess[str], job: str, reason: str) -> None:
    """One clear line at the end of stderr, exit status 1 or 2, and no traceback anywhere."""
    assert result.returncode in (1, 2), result.stderr
    assert "Traceback" not in result.stderr
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith(f"{job}: "), result.stderr
    assert reason in last, result.stderr
    assert result.stdout == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("there", "left"),
    [
        ((), 0),
        ((), 20 * PAGE),  # the records fit, the features do not
        (("datasets", "features"), 6 * PAGE),  # no room for the cache of features
        (("datasets", "features", "cache"), 10 * PAGE),  # nor for a checkpoint
        (("datasets", "features", "cache"), 40 * PAGE),  # nor for the second one
    ],
)
def test_training_on_a_disk_that_fills_up(
    disk: Disk, whole: tuple[Path, dict[str, Any]], there: tuple[str, ...], left: int
) -> None:
    workspace = disk.path / "workspace"
    workspace.mkdir()
    for part in there:
        shutil.copytree(whole[0] / part, workspace / part)
    disk.fill(left)
    one_line(run("train", workspace, *TRAIN), "train", "No space left on device")
    disk.clear()
    summary = summary_of(run("train", workspace, *TRAIN))
    assert summary["headline"] == whole[1]["headline"]


@pytest.mark.slow
def test_a_workspace_that_turns_read_only(disk: Disk, tmp_path: Path, whole: tuple[Path, dict[str, Any]]) -> None:
    workspace = disk.path / "workspace"
    more = (*TRAIN[:-1], "train.epochs=60", "train.batch_size=8")
    expected = summary_of(run("train", tmp_path / "undisturbed", *more))
    for part in ("datasets", "features"):
        shutil.copytree(whole[0] / part, workspace / part)
    process = subprocess.Popen(
        command("train", workspace, *more),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 200
    while not list(workspace.glob("runs/*/checkpoints/*/manifest.json")):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    disk.mode("ro")
    out, error = process.communicate(timeout=200)
    one_line(subprocess.CompletedProcess([], process.returncode, out, error), "train", "Read-only file system")
    again = run("train", workspace, *more)
    assert again.returncode == 2
    one_line(again, "train", "Read-only file system")
    assert len(again.stderr.splitlines()) == 1
    disk.mode("rw")
    summary = summary_of(run("train", workspace, *more))
    assert summary["headline"] == expected["headline"]
    (result,) = workspace.glob("runs/*/result.json")
    assert len(json.loads(result.read_text())["history"]) == 60


@pytest.mark.slow
@pytest.mark.parametrize("left", [100 * PAGE, 220 * PAGE])
def test_a_sweep_on_a_disk_that_fills_up(disk: Disk, tmp_path: Path, left: int) -> None:
    space = tmp_path / "coarse.py"
    space.write_text("from ray import tune\nSPACE = {'model.alpha': tune.grid_search([0.0, 1.0])}\n")
    more = ("--preset", "univse_tiny", *SIZES, "sweep.seeds=0", f"sweep.space={space}", "sweep.reference=none")
    workspace = disk.path / "workspace"
    disk.fill(left)
    one_line(run("sweep_alpha", workspace, *more), "sweep_alpha", "No space left on device")
    disk.clear()
    summary = summary_of(run("sweep_alpha", workspace, *more))
    assert summary["headline"]["trials"] == 1


@pytest.mark.slow
def test_two_workers_on_a_disk_that_fills_up(disk: Disk, whole: tuple[Path, dict[str, Any]]) -> None:
    workspace, more = disk.path / "workspace", (*TRAIN, "train.workers=2", "train.precision=float64")
    for part in ("datasets", "features", "cache"):
        shutil.copytree(whole[0] / part, workspace / part)
    disk.fill(30 * PAGE)
    one_line(run("train", workspace, *more), "train", "No space left on device")
    disk.clear()
    assert summary_of(run("train", workspace, *more))["headline"]["epochs"] == 3
