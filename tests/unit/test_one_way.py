"""The way from a command to the checkpoint is short and leads down only; `tests/unit/one_way.py` has the definition."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.unit.one_way import ROOT

MOST = 40


@pytest.fixture(scope="module")
def way() -> dict[str, Any]:
    """What `python -m tests.unit.one_way` prints."""
    command = [sys.executable, "-m", "tests.unit.one_way"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout[done.stdout.index("{") :])


@pytest.mark.process
def test_few_files_lead_to_the_checkpoint(way: dict[str, Any]) -> None:
    assert len(way["files"]) <= MOST, "\n".join(way["files"])


@pytest.mark.process
def test_no_call_climbs_to_a_folder_above(way: dict[str, Any]) -> None:
    assert way["climbs"] == []


@pytest.mark.process
def test_leaves_call_leaves_only(way: dict[str, Any]) -> None:
    assert way["talkative_leaves"] == []
