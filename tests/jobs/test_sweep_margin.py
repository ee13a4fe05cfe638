"""jobs/sweep_margin.py: alternatives that bring their own settings, searched and listed."""

from pathlib import Path

import pytest

from tests.jobs.sweeping import SMALL, ledger, outcome, run, summary_of

SPACE = """
from ray import tune
SPACE = {
    "which": tune.grid_search([
        {"objective.margin": 0.4, "objective.hinge": tune.grid_search(["hardest", "sum"])},
        {"model.structure": "pool", "objective.structure_margin": 0.1},
    ])
}
"""
# Minutes. tests/faults/test_kills.py holds a sweep from its command to its table, tests/unit/sweeps its alternatives.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def test_a_grid_of_alternatives(tmp_path: Path) -> None:
    file = tmp_path / "few.py"
    file.write_text(SPACE)
    asked = [*SMALL, "train.epochs=1", "objective.global_weight=0.2", f"sweep.space={file}"]
    summary = summary_of(run("sweep_margin", tmp_path / "workspace", *asked))
    assert set(outcome(summary)["points"]) == {
        "margin=0.4 hinge=hardest",
        "margin=0.4 hinge=sum",
        "structure=pool structure_margin=0.1",
    }
    assert "hinge=sum" in summary.with_name("report.html").read_text()


def test_a_search_begins_with_the_published_settings(tmp_path: Path) -> None:
    asked = [*SMALL, "train.epochs=1", "sweep.space=margin_joint", "sweep.method=hyperopt", "sweep.samples=3"]
    summary = summary_of(run("sweep_margin", tmp_path / "workspace", *asked))
    tried = [entry["changes"] for entry in ledger(summary)]
    assert len(tried) == 3
    kinds = [changes["model.structure"] for changes in tried]
    assert {"pool", "attention"} <= set(kinds)
    assert all(("objective.pool_weight" in c) == (c["model.structure"] == "pool") for c in tried)
