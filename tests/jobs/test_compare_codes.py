"""jobs/compare_codes.py as a user runs it: it trains what is missing, adds rows, and says what it cannot serve."""

import json
from pathlib import Path

import pytest
from jsonschema import validate

from tests.jobs.processes import run_many
from vse.workspace.provenance import SCHEMA

# A minute; tests/unit/evaluation holds its numbers, tests/jobs/test_compare.py the command.
pytestmark = pytest.mark.slow

SMALL = ["data.num_train=40", "data.num_val=4", "data.num_test=6", "data.num_shifted=0", "train.epochs=1"]


def test_rows_of_a_system_and_what_is_refused(tmp_path: Path) -> None:
    at = ["compare_codes", "--workspace", str(tmp_path / "workspace")]
    out = f"codes.out={tmp_path / 'table'}"
    commands = [
        [*at, *SMALL, "codes.name=jWAE-MSE", "codes.seeds=2", out],
        [*at, *SMALL],
        [*at, "--preset", "vsepp_tiny", *SMALL, "codes.name=VSE++", out],
    ]
    made, nameless, codeless = run_many(commands, tmp_path)
    assert made[0] == 0, made[2]
    *table, last = made[1].splitlines()
    assert [line.split(" | ")[:2] for line in table[2:]] == [["| jWAE-MSE", "images"], ["| jWAE-MSE", "captions"]]
    kept = json.loads((tmp_path / "table" / "results.json").read_text())["systems"]
    assert kept["jWAE-MSE"]["seeds"] == [0, 1]
    assert "codes.name=jWAE-MSE" in kept["jWAE-MSE"]["command"]
    assert len(list((tmp_path / "workspace" / "runs").glob("jwae-*"))) == 2
    summary = json.loads(Path(last).read_text())
    validate(summary, SCHEMA)
    assert summary["seeds"] == [0, 1]
    assert (nameless[0], nameless[2]) == (2, "compare_codes: codes.name: give the name of the system in the table\n")
    assert codeless[0] == 2
    assert codeless[2] == "compare_codes: model=vsepp: this family has only unit vectors; jWAE has other codes\n"
    assert len(list((tmp_path / "workspace" / "runs").iterdir())) == 2
