"""jobs/sweep_alpha.py as a user runs it: an empty workspace to the curve, again, killed, extended, refused."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.unit.asked import asked
from vse.report.curve import from_dict
from vse.workspace.journal import read

ROOT = Path(__file__).resolve().parents[2]
SPACE = "from ray import tune\nSPACE = {'model.alpha': tune.grid_search([0.0, 0.5, 0.75, 1.0])}\n"
ALPHAS, SEEDS = [0.0, 0.5, 0.75, 1.0], [0, 1]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def command(workspace: Path, *more: str, job: str = "sweep_alpha") -> list[str]:
    return [sys.executable, str(ROOT / "jobs" / f"{job}.py"), "--workspace", str(workspace), *more]


def environment() -> dict[str, str]:
    values = {**os.environ, "PYTHONPATH": f"{ROOT / 'platform'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    values.pop("MLFLOW_TRACKING_URI", None)
    return values


def run(workspace: Path, *more: str, job: str = "sweep_alpha") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(workspace, *more, job=job),
        cwd=workspace.parent,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=550,
    )


def tiny(space: Path, seeds: str = "0,1") -> list[str]:
    return ["--preset", "univse_tiny", f"sweep.seeds={seeds}", f"sweep.space={space}", "sweep.name=curve"]


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("spaces") / "coarse.py"
    file.write_text(SPACE)
    return file


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, space: Path) -> tuple[Path, Path]:
    """(workspace, summary.json) of a finished tiny sweep with two seeds."""
    workspace = tmp_path_factory.mktemp("sweep") / "workspace"
    result = run(workspace, *tiny(space))
    assert result.returncode == 0, result.stderr
    return workspace, Path(result.stdout.splitlines()[-1])


def ledger(summary: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in summary.with_name("ledger.jsonl").read_text().splitlines()]


def test_from_an_empty_workspace_to_the_curve(done: tuple[Path, Path]) -> None:
    workspace, summary = done
    assert summary.parent.parent == workspace / "sweeps"
    data = json.loads(summary.read_text())
    results = from_dict(json.loads(summary.with_name("results.json").read_text()))
    assert (results.alphas, results.seeds) == (ALPHAS, SEEDS)
    assert data["headline"]["alpha"] == results.chosen
    assert data["seeds"] == SEEDS
    with Image.open(summary.with_name("alpha.png")) as image:
        assert image.size[0] > 1500
    page = summary.with_name("report.html").read_text()
    assert "VSE++" in page
    assert "sweep.seeds=0,1" in page
    arms = Counter(entry["changes"]["arm"] for entry in ledger(summary))
    assert arms == {"univse": 2, "vsepp": 2}
    assert all(entry["state"] == "finished" for entry in ledger(summary))


def test_every_alpha_is_what_measuring_a_run_at_it_gives(done: tuple[Path, Path]) -> None:
    from vse.stages.measuring.stage import measure_run
    from vse.workspace.layout import Workspace

    workspace, summary = done
    results = from_dict(json.loads(summary.with_name("results.json").read_text()))
    place = Workspace.open(str(workspace))
    for seed, alpha in ((0, 0.5), (1, 1.0)):
        options = asked(splits=("val", "test"), alpha=alpha, attacks__words=("shared",))
        direct = measure_run(place.run(results.runs["univse"][str(seed)]), place, *options)
        found = results.at(alpha)
        assert found is not None
        for name, values in found.items():
            assert values[SEEDS.index(seed)] == pytest.approx(direct[name], abs=1e-6), name
    best = read(place.run(results.runs["univse"]["0"]).local("journal.jsonl")).latest()
    at = results.at(0.75)  # the curve passes through what selected the checkpoint
    assert at is not None
    assert at["val/rsum"][0] == pytest.approx(best["best/val/rsum"], abs=1e-3)


def test_runs_are_nested_under_one_parent(done: tuple[Path, Path]) -> None:
    workspace, summary = done
    parent = summary.parent.name
    story = read(summary.with_name("journal.jsonl"))
    assert (story.run, story.status) == (parent, "finished")
    shown = {Path(path).name for path, _ in story.artifacts}
    assert {"alpha.png", "report.html", "definition.json", "table.csv", "model.safetensors"} <= shown
    children = [read(path) for path in sorted(summary.parent.glob("trials/*/journal.jsonl"))]
    trainings = [read(path) for path in sorted(workspace.glob("runs/*/journal.jsonl"))]
    assert len(children) == 8 + 2
    assert len(trainings) == 4
    assert {child.parent for child in (*children, *trainings)} == {parent}
    assert all(child.status == "finished" for child in children)
    assert {child.name for child in children} >= {"alpha=0.75 seed=0", "alpha=1 seed=1"}
    assert all(("test/attack_object/r1", 0) in child.metrics for child in children)


def test_mlflow_has_every_run(done: tuple[Path, Path]) -> None:
    workspace, summary = done
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{workspace}/mlflow/mlflow.db")
    (experiment,) = [e for e in client.search_experiments() if e.name == "vse"]
    runs = client.search_runs([experiment.experiment_id], max_results=100)
    by_name = {run.info.run_name: run for run in runs}
    parent = by_name[summary.parent.name].info.run_id
    nested = [run for run in runs if run.data.tags.get("mlflow.parentRunId") == parent]
    assert len(nested) == 8 + 2 + 4
    assert {run.info.status for run in runs} == {"FINISHED"}
    child = by_name["alpha=0.5 seed=1"]
    assert child.data.params["model.alpha"] == "0.5"
    results = from_dict(json.loads(summary.with_name("results.json").read_text()))
    at = results.at(0.5)
    assert at is not None
    assert child.data.metrics["test/rsum"] == pytest.approx(at["test/rsum"][1])


def test_again_does_nothing(done: tuple[Path, Path], space: Path) -> None:
    _, summary = done
    before = {path: path.stat().st_mtime_ns for path in summary.parent.rglob("*") if path.is_file()}
    started = time.monotonic()
    result = run(done[0], *tiny(space))
    seconds = time.monotonic() - started
    assert result.returncode == 0, result.stderr
    assert Path(result.stdout.splitlines()[-1]) == summary
    assert "nothing is left to do" in result.stderr
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert seconds < 30


def test_time_that_is_spent_drains_and_more_of_it_goes_on(done: tuple[Path, Path], space: Path, tmp_path: Path) -> None:
    capped = run(tmp_path / "workspace", *tiny(space), "sweep.concurrency=1", "sweep.max_seconds=0.1")
    assert capped.returncode == 0, capped.stderr
    summary = Path(capped.stdout.splitlines()[-1])
    assert not summary.with_name("ledger.jsonl").exists()  # nothing starts that is not expected to fit
    assert json.loads(summary.read_text())["headline"] == {"left": 4, "trials": 0}
    assert "a trial is expected to take " in capped.stderr
    assert "the cap is reached: 4 trials have not run (univse seed=0, vsepp seed=0, " in capped.stderr
    whole = run(tmp_path / "workspace", *tiny(space))
    assert whole.returncode == 0, whole.stderr
    assert len(ledger(summary)) == len({entry["id"] for entry in ledger(summary)}) == 4
    found, expected = (json.loads(path.with_name("results.json").read_text()) for path in (summary, done[1]))
    assert found == expected


def test_one_more_seed_extends_the_sweep(done: tuple[Path, Path], space: Path) -> None:
    workspace, summary = done
    before = ledger(summary)
    result = run(workspace, *tiny(space, seeds="0,2"))
    assert result.returncode == 0, result.stderr
    after = ledger(summary)
    assert after[: len(before)] == before
    new = after[len(before) :]
    assert sorted((entry["changes"]["arm"], entry["changes"]["seed"]) for entry in new) == [("univse", 2), ("vsepp", 2)]
    results = from_dict(json.loads(summary.with_name("results.json").read_text()))
    assert results.seeds == [0, 2]


def test_a_name_used_again_with_other_settings_is_refused(done: tuple[Path, Path], space: Path) -> None:
    result = run(done[0], *tiny(space), "optim.lr=0.01")
    assert result.returncode == 2
    assert result.stdout == ""
    (line,) = result.stderr.strip().splitlines()
    assert "sweep.name=curve: already used" in line
    assert "lr was 0.002, is 0.01" in line


def test_a_page_of_the_sweep_elsewhere(done: tuple[Path, Path]) -> None:
    workspace, summary = done
    result = run(workspace, f"sweep={summary.parent.name}", job="report")
    assert result.returncode == 0, result.stderr
    page = Path(result.stdout.splitlines()[-1]).with_name("report.html")
    assert page.parent == workspace / "reports" / summary.parent.name
    assert "UniVSE" in page.read_text()


def test_killed_and_run_again(tmp_path: Path, space: Path) -> None:
    """Killed without warning after the first trial: the second call continues, and trains nothing twice."""
    workspace = tmp_path / "workspace"
    arguments = command(workspace, *tiny(space), "sweep.reference=none", "sweep.concurrency=1")
    process = subprocess.Popen(
        arguments,
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 300
    while not list(workspace.glob("sweeps/*/ledger.jsonl")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.2)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    (path,) = workspace.glob("sweeps/*/ledger.jsonl")
    before = [json.loads(line) for line in path.read_bytes().split(b"\n") if line.strip()]
    (training,) = {entry["result"]["run"] for entry in before}
    checkpoint = {
        p: p.stat().st_mtime_ns for p in (workspace / "runs" / training / "checkpoints").rglob("*") if p.is_file()
    }
    result = run(workspace, *tiny(space), "sweep.reference=none", "sweep.concurrency=1")
    assert result.returncode == 0, result.stderr
    summary = Path(result.stdout.splitlines()[-1])
    after = ledger(summary)
    assert after[: len(before)] == before
    assert Counter(entry["id"] for entry in after).most_common(1)[0][1] == 1
    assert {p: p.stat().st_mtime_ns for p in checkpoint} == checkpoint
    assert from_dict(json.loads(summary.with_name("results.json").read_text())).reference is None
