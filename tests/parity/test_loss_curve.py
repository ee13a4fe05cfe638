"""Committed loss curves of the tiny presets, replayed: whatever changes what is learned shows here.

After a change that is meant (another parser, other scenes, another loss), write them anew and say why in the commit:

    python -m tests.parity.test_loss_curve
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from vse.config import override
from vse.presets import preset
from vse.training.run import run_training
from vse.workspace import Workspace

DATA = Path(__file__).parents[1] / "data"
PRESETS = ("vsepp_tiny", "univse_tiny")
# Double precision and a small rate, so that other processors stay within the tolerance; four epochs, so that UniVSE's
# relations take part in two.
CHANGES = {"train.precision": "float64", "train.epochs": 4, "optim.lr": 5e-4}


def curve(name: str, workspace: Workspace) -> list[dict[str, float]]:
    """Losses and gradient norm of every epoch."""
    rows: list[dict[str, float]] = []
    run_training(override(preset(name), CHANGES), workspace, report=rows.append)
    kept = [{key: value for key, value in row.items() if key.startswith("train/")} for row in rows]
    return [{key: value for key, value in row.items() if key != "train/seconds"} for row in kept]


def file_of(name: str) -> Path:
    return DATA / f"loss_curve_{name}.json"


@pytest.mark.parametrize("name", PRESETS)
def test_the_committed_curve_is_replayed(workspace: Any, name: str) -> None:
    expected = json.loads(file_of(name).read_text())
    found = curve(name, workspace)
    assert len(found) == len(expected) == CHANGES["train.epochs"]
    for epoch, (row, wanted) in enumerate(zip(found, expected, strict=True), start=1):
        assert row.keys() == wanted.keys()
        for key, value in wanted.items():
            assert row[key] == pytest.approx(value, rel=1e-4), f"epoch {epoch}, {key}"


@pytest.mark.parametrize("name", PRESETS)
def test_the_curves_are_those_of_runs_that_learn(name: str) -> None:
    rows = json.loads(file_of(name).read_text())
    losses = [row["train/sent"] for row in rows[1:]]  # the first epoch sums over negatives
    assert losses == sorted(losses, reverse=True)
    if name == "univse_tiny":
        assert {"train/obj", "train/attr_word", "train/comp", "train/rel_batch"} <= rows[-1].keys()
        assert "train/rel_batch" not in rows[1]


if __name__ == "__main__":
    for chosen in sys.argv[1:] or PRESETS:
        with tempfile.TemporaryDirectory() as folder:
            written = curve(chosen, Workspace.open(folder))
        file_of(chosen).write_text(json.dumps(written, indent=1) + "\n")
