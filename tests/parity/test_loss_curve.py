"""Committed loss curves of the tiny presets, replayed: whatever changes what is learned shows here.

They carry the revision of training that they were made under. After a change that is meant (another loss, another
order of sums), raise `vse.training.inputs.REVISION`, so that no run of before is taken for one of after, write the
curves anew and say why in the commit:

    python -m tests.parity.test_loss_curve
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from vse.config import override
from vse.presets import preset
from vse.stages.train import run_training
from vse.training.inputs import REVISION
from vse.workspace.layout import Workspace

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
Curve = list[dict[str, float]]
PRESETS = ("vsepp_tiny", "univse_tiny")
# Double precision and a small rate, so that other processors stay within the tolerance; four epochs, so that UniVSE's
# relations take part in two.
CHANGES = {"train.precision": "float64", "train.epochs": 4, "optim.lr": 5e-4}


def curve(name: str, workspace: Workspace) -> Curve:
    """Losses and gradient norm of every epoch."""
    rows: Curve = []
    run_training(override(preset(name), CHANGES), workspace, report=rows.append)
    kept = [{key: value for key, value in row.items() if key.startswith("train/")} for row in rows]
    return [{key: value for key, value in row.items() if key != "train/seconds"} for row in kept]


def file_of(name: str) -> Path:
    return DATA / f"loss_curve_{name}.json"


def committed(text: str) -> tuple[int, Curve]:
    data = json.loads(text)
    return data["revision"], data["epochs"]


def differences(found: Curve, wanted: Curve) -> list[str]:
    """What is not the same in two curves; a number that only one of them has is none."""
    assert len(found) == len(wanted) == CHANGES["train.epochs"]
    return [
        f"epoch {epoch}, {key}: {wanted_row[key]} became {row[key]}"
        for epoch, (row, wanted_row) in enumerate(zip(found, wanted, strict=True), start=1)
        for key in row.keys() & wanted_row.keys()
        if row[key] != pytest.approx(wanted_row[key], rel=1e-4)
    ]


@pytest.mark.seconds
@pytest.mark.parametrize("name", PRESETS)
def test_the_committed_curve_is_replayed(workspace: Any, name: str) -> None:
    revision, expected = committed(file_of(name).read_text())
    found = curve(name, workspace)
    assert not differences(found, expected), "raise vse.training.inputs.REVISION and write the curves anew, if meant"
    assert [row.keys() for row in found] == [row.keys() for row in expected]
    assert revision == REVISION, "write the curves anew"


@pytest.mark.parametrize("name", PRESETS)
def test_no_revision_of_training_has_two_curves(name: str) -> None:
    """Over every commit: a curve that changes takes a revision of its own along."""
    place = file_of(name).relative_to(ROOT).as_posix()
    commits = git("log", "--format=%H", "--", place).split()
    if not commits:
        pytest.skip("no repository, or one without its history")
    known: dict[int, Curve] = {}
    for text in (*(git("show", f"{commit}:{place}") for commit in reversed(commits)), file_of(name).read_text()):
        if text.startswith("{"):  # before there were revisions a file was a list, and nothing was promised
            revision, rows = committed(text)
            assert not differences(rows, known.setdefault(revision, rows)), f"revision {revision} has two curves"


def git(*arguments: str) -> str:
    found = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=30)
    return found.stdout if found.returncode == 0 else ""


@pytest.mark.parametrize(("change", "found"), [(1.00001, []), (1.1, ["epoch 3, train/sent: 0.5 became 0.55"])])
def test_differences_are_seen(change: float, found: list[str]) -> None:
    rows = [{"train/sent": 0.5, "train/rate": 1.0} for _ in range(CHANGES["train.epochs"])]
    other = [{"train/sent": 0.5, "train/gradient": 2.0} for _ in rows]
    other[2]["train/sent"] *= change
    assert differences(other, rows) == found


@pytest.mark.parametrize("name", PRESETS)
def test_the_curves_are_those_of_runs_that_learn(name: str) -> None:
    _, rows = committed(file_of(name).read_text())
    losses = [row["train/sent"] for row in rows[1:]]  # the first epoch sums over negatives
    assert losses == sorted(losses, reverse=True)
    if name == "univse_tiny":
        assert {"train/obj", "train/attr_word", "train/comp", "train/rel_batch"} <= rows[-1].keys()
        assert "train/rel_batch" not in rows[1]


if __name__ == "__main__":
    for chosen in sys.argv[1:] or PRESETS:
        with tempfile.TemporaryDirectory() as folder:
            written = curve(chosen, Workspace.open(folder))
        file_of(chosen).write_text(json.dumps({"revision": REVISION, "epochs": written}, indent=1) + "\n")
