"""jobs/sweep_eta.py as a user runs it: to the page, again, killed, extended, failed, capped, searched."""

import json
import os
import random
import re
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from tests.jobs.sweeping import command, environment, ledger, outcome, run, summary_of
from vse.storage.folder import Folder
from vse.sweeps.ledger import Ledger
from vse.workspace.journal import read

SPACE = """
from ray import tune
SPACE = {"weight": tune.grid_search([{f"objective.eta_{k}": tune.grid_search([0.1, 8.0])} for k in "co"])}
"""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def space(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("spaces") / "coarse.py"
    file.write_text(SPACE)
    return file


def tiny(space: Path, seeds: str = "0") -> list[str]:
    return ["--preset", "univse_tiny", f"sweep.space={space}", f"sweep.seeds={seeds}", "sweep.objective=both"]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, space: Path) -> tuple[Path, Path]:
    """(workspace, summary.json) of an undisturbed sweep of four points."""
    workspace = tmp_path_factory.mktemp("eta") / "workspace"
    return workspace, summary_of(run("sweep_eta", workspace, *tiny(space)))


def test_from_an_empty_workspace_to_the_page(done: tuple[Path, Path]) -> None:
    _, summary = done
    assert Counter(entry["state"] for entry in ledger(summary)) == {"finished": 4}
    found = outcome(summary)
    assert set(found["points"]) == {"eta_c=0.1", "eta_c=8", "eta_o=0.1", "eta_o=8"}
    metrics = found["points"]["eta_c=8"]["metrics"]
    pairs = sum(metrics[f"val/attack_{a}/pair_accuracy"][0] for a in ("object", "attribute", "relation")) / 3
    assert metrics["objective"][0] == pytest.approx((metrics["val/rsum"][0] / 6 + pairs) / 2)
    assert "test/rsum" in metrics
    best = max(found["points"].values(), key=lambda p: p["metrics"]["objective"][0])
    assert found["best"] == best["label"]
    with Image.open(summary.with_name("response.png")) as image:
        assert image.size[0] > 1000
    page = summary.with_name("report.html").read_text()
    assert page.count("<svg") >= 1
    assert "http" not in page.split("</style>")[1].split("Environment")[0]
    assert json.loads(summary.read_text())["headline"]["best"] == found["best"]


def test_one_parent_with_a_run_a_trial_and_a_training(done: tuple[Path, Path]) -> None:
    from mlflow.tracking import MlflowClient

    workspace, summary = done
    client = MlflowClient(f"sqlite:///{workspace}/mlflow/mlflow.db")
    (experiment,) = [e for e in client.search_experiments() if e.name == "vse"]
    runs = client.search_runs([experiment.experiment_id], max_results=100)
    (parent,) = [r for r in runs if r.info.run_name == summary.parent.name]
    nested = [r for r in runs if r.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
    assert Counter(r.data.tags["kind"] for r in nested) == {"trial": 4, "training": 4}
    assert {r.info.status for r in runs} == {"FINISHED"}
    (child,) = [r for r in nested if r.info.run_name == "eta_c=8 seed=0"]
    assert child.data.params["objective.eta_c"] == "8.0"
    expected = outcome(summary)["points"]["eta_c=8"]["metrics"]["objective"][0]
    assert child.data.metrics["objective"] == pytest.approx(expected)
    assert child.data.metrics["cost/seconds"] > 0
    artifacts = {Path(path).name for path, _ in read(summary.with_name("journal.jsonl")).artifacts}
    assert {"response.png", "report.html", "best.json", "points.csv"} <= artifacts


def test_again_does_nothing(done: tuple[Path, Path], space: Path) -> None:
    workspace, summary = done
    before = {path: path.stat().st_mtime_ns for path in summary.parent.rglob("*") if path.is_file()}
    result = run("sweep_eta", workspace, *tiny(space))
    assert summary_of(result) == summary
    assert "nothing is left to do" in result.stderr
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_the_best_preset_trains_to_what_the_sweep_found(done: tuple[Path, Path]) -> None:
    workspace, summary = done
    found = outcome(summary)
    result = run("train", workspace, "--preset", str(summary.with_name("best.json")))
    trained = json.loads(summary_of(result).read_text())
    best = found["points"][found["best"]]
    assert Path(trained["outputs"]["run"]).name == best["runs"]["0"]
    assert trained["headline"]["val/rsum"] == best["metrics"]["val/rsum"][0]
    assert trained["headline"]["trained"] is False  # the very run is there


def test_a_page_elsewhere(done: tuple[Path, Path]) -> None:
    workspace, summary = done
    page = summary_of(run("report", workspace, f"sweep={summary.parent.name}")).with_name("report.html")
    assert page.parent == workspace / "reports" / summary.parent.name
    assert "eta_c=8" in page.read_text()


@pytest.mark.parametrize("when", ["at any moment", "among its trials"])
def test_the_driver_killed(done: tuple[Path, Path], space: Path, tmp_path: Path, when: str) -> None:
    """kill -9 of the driver alone, run again: the results of the undisturbed sweep, no trial twice."""
    workspace = tmp_path / "workspace"
    process = subprocess.Popen(
        command("sweep_eta", workspace, *tiny(space), "sweep.concurrency=1"),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    started = time.monotonic()
    if when == "at any moment":
        moment = random.uniform(0.2, 1.0) * json.loads(done[1].read_text())["seconds"] + 3.0
    else:
        while process.poll() is None and not list(workspace.glob("sweeps/*/ledger.jsonl")):
            time.sleep(0.1)
        moment = time.monotonic() - started + random.uniform(0.0, 4.0)
    try:
        process.wait(timeout=max(0.0, moment - (time.monotonic() - started)))
    except subprocess.TimeoutExpired:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    (*paths,) = workspace.glob("sweeps/*/ledger.jsonl")
    before = [json.loads(line) for path in paths for line in path.read_bytes().split(b"\n") if line.endswith(b"}")]
    time.sleep(1.0)
    summary = summary_of(run("sweep_eta", workspace, *tiny(space)))
    print(f"killed after {moment:.1f} s with {len(before)} of 4 trials in the ledger")
    after = ledger(summary)
    assert after[: len(before)] == before
    assert Counter(entry["id"] for entry in after).most_common(1)[0][1] == 1
    assert outcome(summary) == outcome(done[1])


def test_money_that_is_spent_drains_and_more_of_it_goes_on(
    done: tuple[Path, Path], space: Path, tmp_path: Path
) -> None:
    """A price of 3,600 an hour is 1 a second: nothing starts that is not expected to fit, no trial is done twice."""
    paid = [*tiny(space), "sweep.price=3600", "sweep.concurrency=2"]
    capped = run("sweep_eta", tmp_path / "workspace", *paid, "sweep.max_cost=0.01")
    summary = summary_of(capped)
    assert not summary.with_name("ledger.jsonl").exists()
    (each,) = re.findall(r"a trial is expected to take (\S+) s \(timed here", capped.stderr)
    summary_of(run("sweep_eta", tmp_path / "workspace", *paid, f"sweep.max_cost={3 * float(each)}"))
    first = ledger(summary)  # one or more of four: steps are timed again, on a machine that may be busier
    assert {entry["state"] for entry in first} == {"finished"}
    assert json.loads(summary.read_text())["headline"]["left"] == 4 - len(first)
    summary_of(run("sweep_eta", tmp_path / "workspace", *paid, "sweep.max_cost=0.02"))
    assert ledger(summary) == first
    summary_of(run("sweep_eta", tmp_path / "workspace", *paid, "sweep.max_cost=1e6"))
    assert ledger(summary)[: len(first)] == first
    assert outcome(summary) == outcome(done[1])


def test_capped_and_extended(done: tuple[Path, Path], space: Path) -> None:
    """A cap that is used up starts nothing; more seeds run alone."""
    workspace, summary = done
    before = ledger(summary)
    capped = run("sweep_eta", workspace, *tiny(space, "0,1"), "sweep.max_seconds=0.5")
    assert json.loads(summary_of(capped).read_text())["headline"]["left"] == 4
    assert ledger(summary) == before
    summary_of(run("sweep_eta", workspace, *tiny(space, "0,1"), "sweep.concurrency=1"))
    extended = ledger(summary)
    assert extended[: len(before)] == before
    assert [entry["changes"]["seed"] for entry in extended[len(before) :]] == [1] * 4
    assert outcome(summary)["points"]["eta_o=8"]["seeds"] == [0, 1]


def test_failed_trials_are_tried_again_alone(done: tuple[Path, Path], space: Path) -> None:
    workspace, summary = done
    before = ledger(summary)
    Ledger(Folder.open(summary.parent)).fail(before[2]["changes"], "ValueError: made up", 1.0)
    left_alone = run("sweep_eta", workspace, *tiny(space), "sweep.run=new")
    assert left_alone.returncode == 1
    assert "1 trial failed" in left_alone.stderr
    assert "made up" in left_alone.stderr
    assert "Traceback" not in left_alone.stderr  # of the driver, which did nothing wrong
    summary_of(run("sweep_eta", workspace, *tiny(space, "0,7"), "sweep.run=failed"))  # none of seed 7 has failed
    retried = ledger(summary)[len(before) + 1 :]
    assert [(entry["id"], entry["state"]) for entry in retried] == [(before[2]["id"], "finished")]
    assert retried[0]["result"]["objective"] == before[2]["result"]["objective"]


def test_a_search_goes_on_by_another_method(tmp_path: Path) -> None:
    """Two random points, then HyperOpt learns from them; trials that fall behind are ended by halving."""
    workspace = tmp_path / "workspace"
    asked = ["--preset", "univse_tiny", "sweep.space=eta_joint", "train.epochs=3", "sweep.concurrency=1"]
    first = summary_of(run("sweep_eta", workspace, *asked, "sweep.method=random", "sweep.samples=2"))
    before = ledger(first)
    second = summary_of(
        run("sweep_eta", workspace, *asked, "sweep.method=hyperopt", "sweep.samples=3", "sweep.first=1")
    )
    assert first == second
    after = ledger(second)
    assert after[:2] == before
    assert len(after) == 3
    third = summary_of(run("sweep_eta", workspace, *asked, "sweep.method=asha", "sweep.samples=6", "sweep.reduction=2"))
    found = ledger(third)[3:]
    assert len(found) == 4  # of six random points two are there; HyperOpt's own one is not among them
    assert all(len(e["result"]["curve"]) == e["result"]["epochs"] for e in found)
    assert all(e["result"]["epochs"] < 3 for e in found if e["result"].get("stopped"))
    assert any(e["result"].get("stopped") for e in found)
    for e in found:
        status = read(workspace / "runs" / e["result"]["run"] / "journal.jsonl").status
        assert status == ("killed" if e["result"].get("stopped") else "finished")
    fourth = summary_of(run("sweep_eta", workspace, *asked, "sweep.method=random", "sweep.samples=6"))
    again = ledger(fourth)[7:]  # those that were ended early go on from their checkpoints, to their end
    assert sorted(e["id"] for e in again) == sorted(e["id"] for e in found if e["result"].get("stopped"))
    assert all(e["result"]["epochs"] == 3 and not e["result"].get("stopped") for e in again)
