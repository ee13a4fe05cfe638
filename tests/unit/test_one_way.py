"""The way from a command to the checkpoint is short, leads down only and is documented, see `tests/unit/one_way.py`."""

import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.unit.one_way import ROOT

MOST = 40
PAGE = ROOT / "docs/explanation/architecture.md"
ROW = re.compile(r"^\| `(\S+\.py)` \| [^|]+ \| (?:`(\S+)`)? ?\| (?:`(\S+)`)? ?\|$", re.MULTILINE)


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


@pytest.mark.process
def test_the_page_on_architecture_lists_these_files_and_calls(way: dict[str, Any]) -> None:
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert sorted(file for file, _, _ in rows) == way["files"]
    wrong = [row for row in rows if row[1] and [row[1], row[0], row[2]] not in way["calls"]]
    assert wrong == []
    assert [file for file, caller, _ in rows if not caller] == ["jobs/train.py", "stages/local_inputs.py"]
