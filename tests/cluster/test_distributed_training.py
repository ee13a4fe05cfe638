"""jobs/train.py on two workers through Ray Train: the numbers of one worker, also when a worker is lost on the way."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load

from tests.jobs.processes import command, environment, run, summary_of
from vse.storage.folder import Folder
from vse.workspace.journal import read

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SIZES = ("data.num_train=30", "data.num_val=8", "data.num_test=4", "data.num_shifted=0", "model.dim=32")
DOUBLE = (*SIZES, "train.precision=float64")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("distributed") / "workspace"


def history(summary: dict[str, Any]) -> list[dict[str, float]]:
    rows = json.loads((Path(summary["outputs"]["run"]) / "result.json").read_text())["history"]
    return [{key: value for key, value in row.items() if not key.endswith("seconds")} for row in rows]


def weights(summary: dict[str, Any]) -> dict[str, Any]:
    return load((Path(summary["outputs"]["checkpoint"]) / "model.safetensors").read_bytes())


# Two plain families, one of two phases, one that scores pairs itself, one with inputs of its own.
@pytest.mark.parametrize(
    "preset", ["vsepp_tiny", "univse_tiny", "jwae_mh_gru_scenes", "scan_t2i_lse_scenes", "vsec_scenes"]
)
def test_two_workers_give_the_numbers_of_one(made: Path, tmp_path: Path, preset: str) -> None:
    one, two = (
        run(
            "train",
            space,
            "--preset",
            preset,
            *DOUBLE,
            "train.epochs=3",
            "train.batch_size=64",
            f"train.workers={n}",
            timeout=500,
        )
        for n, space in ((1, tmp_path / "alone"), (2, made))  # in one workspace they would be the same run
    )
    alone, together = summary_of(one), summary_of(two)
    rows = list(zip(history(alone), history(together), strict=True))
    assert len(rows) == 3
    for row, other in rows:
        assert row.keys() == other.keys()
        for key, value in row.items():
            assert other[key] == pytest.approx(value, rel=1e-5, abs=1e-9), key
    state = weights(together)
    for key, value in weights(alone).items():
        assert (state[key] - value).abs().max() < 1e-6, key
    assert together["headline"]["best_epoch"] == alone["headline"]["best_epoch"]
    folder = Path(together["outputs"]["run"])
    story = read(folder / "journal.jsonl")
    assert story.status == "finished"
    assert {step for key, step in story.metrics if key == "train/sent"} == {1, 2, 3}
    heard = [line.split()[1] for line in two.stderr.splitlines() if line.startswith("epoch ")]
    assert heard == ["1/3", "2/3", "3/3"]
    assert not (folder / "ray").exists()


def test_a_lost_worker_is_replaced_and_changes_nothing(made: Path, tmp_path: Path) -> None:
    more = ("--preset", "vsepp_tiny", *DOUBLE, "train.epochs=60", "train.batch_size=16")
    alone = summary_of(run("train", made, *more))
    for part in ("datasets", "features"):
        shutil.copytree(made / part, tmp_path / "workspace" / part)
    process = subprocess.Popen(
        command("train", tmp_path / "workspace", *more, "train.workers=2"),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _wait_for(process, tmp_path / "workspace", "epoch-0003")
        workers = [pid for pid in _descendants(process.pid) if "RayTrainWorker" in _command_line(pid)]
        assert len(workers) == 2
        os.kill(workers[1], signal.SIGKILL)
        out, error = process.communicate(timeout=600)
    finally:
        process.kill()
    assert process.returncode == 0, error
    summary = json.loads(Path(out.splitlines()[-1]).read_text())
    for row, other in zip(history(alone), history(summary), strict=True):
        for key, value in row.items():
            assert other[key] == pytest.approx(value, rel=1e-5, abs=1e-9), key
    story = read(Path(summary["outputs"]["run"]) / "journal.jsonl")
    assert {step for key, step in story.metrics if key == "train/sent"} == set(range(1, 61))
    lines = (Path(summary["outputs"]["run"]) / "journal.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["kind"] == "start" for line in lines) == 2


def _wait_for(process: subprocess.Popen[str], workspace: Path, checkpoint: str) -> None:
    deadline = time.monotonic() + 300
    while not any(
        path.parent.name >= checkpoint for path in workspace.glob("runs/*/checkpoints/epoch-*/manifest.json")
    ):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)


def _descendants(pid: int) -> list[int]:
    """Processes that a process started, and those that they started (Linux)."""
    parents = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(status.parent.name)] = int(status.read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended meanwhile
            continue
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found[1:]


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def test_a_refusal_of_a_worker_is_one_line_and_not_tried_again(made: Path, tmp_path: Path) -> None:
    more = ("--preset", "vsepp_tiny", *DOUBLE, "train.epochs=2", "train.workers=2")
    summary = summary_of(run("train", made, *more, timeout=500))
    folder = Path(summary["outputs"]["run"])
    (folder / "result.json").unlink()
    checkpoint = Path(summary["outputs"]["checkpoint"]).parent / "epoch-0002"
    progress = json.loads((checkpoint / "progress.json").read_text())
    (checkpoint / "progress.json").write_text(json.dumps(progress | {"version": 99}))
    manifest = json.loads((checkpoint / "manifest.json").read_text())

    Folder.open(os.fspath(checkpoint)).commit_manifest(manifest["files"])
    result = run("train", made, *more, timeout=500)
    assert result.returncode == 2, result.stderr
    last = result.stderr.splitlines()[-1]
    assert last.startswith("train: ")
    assert "checkpoint of version 99, this code reads 1" in last
    assert "Traceback" not in result.stderr


WAITING = """
import sys, time
import ray
from vse.stages import pipeline
from vse.cluster.runtime import Config, running_ray
from vse.config import override
from vse.presets import preset
from vse.stages.train import run_training
from vse.workspace.layout import Workspace

config, workspace, told = override(preset("vsepp_tiny"), eval(sys.argv[2])), Workspace.open(sys.argv[1]), []
pipeline.prepare(config, workspace)
with running_ray(Config(cpus=2)):
    held = ray.remote(num_cpus=1)(lambda: time.sleep(20)).remote()
    run_training(config, workspace, report=told.append)
print([row["waited"] for row in told])
"""


def test_workers_tell_how_long_they_had_no_place(made: Path) -> None:
    """Both CPUs are theirs once a task that holds one of them has ended."""
    sizes = {key: int(value) for key, _, value in (each.partition("=") for each in SIZES)}
    changes = {**sizes, "seed": 7, "train.epochs": 2, "train.workers": 2}
    done = subprocess.run(
        [sys.executable, "-c", WAITING, str(made), repr(changes)],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout.splitlines()[-1])
    assert 1 < first == second < 20
