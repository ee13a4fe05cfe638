"""Kills that fit into a test run; `make evidence-faults` does many more at random moments."""

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.faults.campaign import Blow, one_run, work_through
from tests.faults.comparison import checkpoints, differences, tables, tracked, verdict
from tests.faults.processes import Family, kill, of_ray
from tests.faults.scenarios import SERVED_WORKERS, SWEEP, WORKERS, Place, Scenario
from tests.faults.table import markdown
from tests.jobs.processes import command

pytestmark = pytest.mark.process

SIZES = ("data.num_train=20", "data.num_val=6", "data.num_test=4", "data.num_shifted=0")


def _train(place: Place) -> list[str]:
    return command("train", place.workspace, "--preset", "vsepp_tiny", *SIZES, "train.epochs=30", "train.batch_size=16")


def test_a_killed_driver(tmp_path: Path) -> None:
    """One worker, killed without warning once it has learned something; the same command ends as if it had not been."""
    short = Scenario("short", ("driver",), (_train,))
    undisturbed, killed = Place.local(tmp_path / "undisturbed"), Place.local(tmp_path / "killed")
    work_through(short, undisturbed)
    blow = Blow("driver", 0.0, when=lambda workspace: any(workspace.glob("runs/*/checkpoints/*/manifest.json")))
    outcome = work_through(short, killed, blow)
    assert (blow.struck, blow.stage) == (True, "training")
    assert (outcome.restarts, outcome.statuses, outcome.left) == (1, [-9, 0], [])
    assert verdict(undisturbed, killed) == []


def _learn(changes: dict[str, Any], workspace: str) -> dict[str, Any]:
    """A trial that trains; the first one waits after its second epoch to be killed."""
    from vse.config import override
    from vse.presets import preset
    from vse.stages.train import run_training
    from vse.workspace.layout import Workspace

    place = Workspace.open(workspace)
    small = {"data.num_train": 20, "data.num_val": 6, "data.num_test": 4, "data.num_shifted": 0, "train.epochs": 6}

    def report(numbers: dict[str, float]) -> None:
        if numbers["epoch"] == 2 and changes["wait"] and not place.root.exists("killed"):
            place.root.write_text("waits", "")
            time.sleep(120)

    result = run_training(override(preset("vsepp_tiny"), small), place, report=report)
    return {"metrics": {k: v for k, v in result.metrics.items() if not k.endswith("seconds")}, "best": result.best}


@pytest.mark.slow  # a minute and a half; lost trial processes are in tests/unit/sweeps/test_experiment.py
def test_a_killed_trial(tmp_path: Path) -> None:
    """The trial's process is lost in its second epoch: the sweep starts it again, and the run goes on."""
    import functools

    from tests.unit.sweeps.running import run_sweep
    from vse.cluster.runtime import Config, running_ray
    from vse.storage.folder import Folder
    from vse.sweeps.ledger import Ledger

    family, killed = Family(os.getpid()), []

    def strike() -> None:
        deadline = time.monotonic() + 100
        while not (tmp_path / "killed" / "waits").exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        killed.extend(family.victims("trial"))
        (tmp_path / "killed" / "killed").write_text("")
        kill(killed)

    assassin = threading.Thread(target=strike)
    with running_ray(Config(cpus=2)):
        folder = Folder.open(tmp_path / "sweep")
        assassin.start()
        learn = functools.partial(_learn, workspace=str(tmp_path / "killed"))
        (entry,) = run_sweep(Ledger(folder), [{"wait": True}], learn)
        (other,) = run_sweep(
            Ledger(folder), [{"wait": False}], functools.partial(_learn, workspace=str(tmp_path / "undisturbed"))
        )
    assassin.join()
    assert len(killed) == 1
    assert (entry.state, entry.attempts) == ("finished", 2)
    assert entry.result == other.result
    assert differences(tables(tmp_path / "undisturbed"), tables(tmp_path / "killed")) == []
    assert checkpoints(tmp_path / "undisturbed") == checkpoints(tmp_path / "killed") != {}


def _sweep_of_workers(place: Place) -> list[str]:
    space = place.folder / "one.py"
    space.write_text("from ray import tune\nSPACE = {'objective.margin': tune.grid_search([0.1])}\n")
    more = (*SIZES, "train.workers=2", "train.epochs=30", "train.batch_size=16", "ray.cpus=3")
    return command("sweep_eta", place.workspace, "--preset", "vsepp_tiny", f"sweep.space={space}", *more)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_killed_trial_of_two_workers(tmp_path: Path) -> None:
    """Its workers end with it, and what they had goes to the next attempt: there is no room for two."""
    place = Place.local(tmp_path / "killed")
    blow = Blow("trial", 0.0, when=lambda workspace: any(workspace.glob("runs/*/checkpoints/*/manifest.json")))
    outcome = work_through(Scenario("sweep of workers", ("trial",), (_sweep_of_workers,)), place, blow)
    assert (blow.struck, blow.stage, outcome.statuses) == (True, "training", [0])
    (ledger,) = place.files.glob("sweeps/*/ledger.jsonl")
    ends = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert [end["state"] for end in ends] == ["failed", "finished"]
    assert ends[-1]["result"]["epochs"] == 30


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("scenario", "victim"),
    [(SWEEP, "trial"), (SWEEP, "raylet"), (WORKERS, "train worker"), (SERVED_WORKERS, "s3 server")],
)
def test_one_run_of_the_campaign(tmp_path_factory: pytest.TempPathFactory, scenario: Scenario, victim: str) -> None:
    root = tmp_path_factory.getbasetemp() / "campaign"  # the undisturbed runs serve all victims
    # MLflow remembers a store by its path
    number = scenario.victims.index(victim) + 10 * (SWEEP, WORKERS, SERVED_WORKERS).index(scenario)
    rows: list[dict[str, Any]] = []
    while len(rows) < 4 and not any(row["alive"] for row in rows):
        rows.append(one_run(root, number, len(rows), scenario, victim))
        assert rows[-1]["wrong"] == [], rows[-1]
    assert rows[-1]["verdict"] == "the same"
    assert [title for title in rows[-1]["left_behind"] if not of_ray(title)] == []


def test_a_difference_is_found(tmp_path: Path) -> None:
    """The comparison can fail: a number, a lost table, another weight."""
    for name, value in (("one", 0.5), ("other", 0.25)):
        run = tmp_path / name / "runs" / "r"
        (run / "checkpoints" / "epoch-0001").mkdir(parents=True)
        (run / "checkpoints" / "epoch-0001" / "model.safetensors").write_bytes(str(value).encode())
        (run / "result.json").write_text(json.dumps({"metrics": {"val/rsum": value}, "seconds": value}))
    one, other = tmp_path / "one", tmp_path / "other"
    assert differences(tables(one), tables(one)) == []
    assert differences(tables(one), tables(other)) == ["/runs/r/result.json/metrics/val/rsum: 0.5 became 0.25"]
    assert differences(tables(one), {}) == ["/runs/r/result.json only before"]
    assert len(differences(checkpoints(one), checkpoints(other))) == 1
    assert differences([1, 2], [1]) != []


def test_epochs_that_a_tracker_has_twice_are_found(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    store = tmp_path / "mlflow.db"
    client = MlflowClient(f"sqlite:///{store}")
    place = client.create_experiment("vse", str(tmp_path / "artifacts"))
    run = client.create_run(place, tags={"vse.run_id": "r"})
    client.log_metric(run.info.run_id, "train/sent", 1.0, step=1)
    assert tracked(store) == ({"r": {"train/sent": [1], "status RUNNING": []}}, [])
    client.log_metric(run.info.run_id, "train/sent", 1.0, timestamp=1, step=1)
    client.create_run(place, tags={"vse.run_id": "r"})
    assert sorted(tracked(store)[1]) == ["r: train/sent twice at 1", "run r twice"]


def test_the_table() -> None:
    row = {"scenario": "sweep", "victim": "trial", "alive": True, "verdict": "the same", "stage": "training"}
    rows: list[dict[str, Any]] = [
        row | {"restarts": 0, "cost_seconds": 3.2, "not_alive_at": []},
        row | {"restarts": 1, "cost_seconds": 7.6, "stage": "report", "not_alive_at": [[1.5, "extraction"]]},
        row
        | {"restarts": 0, "cost_seconds": 0.0, "alive": False, "verdict": "not alive", "not_alive_at": [[9.0, "x"]]},
    ]
    last = markdown(rows).splitlines()[-1]
    assert last == "| trial (sweep) | 2 | report, training | 2 | 1 | 5, 8 | 2 of 2 |"
