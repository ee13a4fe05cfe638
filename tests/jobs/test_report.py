"""jobs/report.py as a user runs it: the page, and everything that trackers could not be told before."""

from pathlib import Path

import pytest

from tests.jobs.processes import run_many
from tests.jobs.tracking_server import Memory, serving
from tests.unit.tracking.test_shipping import write_run
from vse.storage.folder import Folder

pytestmark = pytest.mark.process


def test_it_sends_what_waits(tmp_path: Path) -> None:
    """A tracking server that was away when the run was measured, and is back for the report."""
    workspace, memory = tmp_path / "workspace", Memory(str(tmp_path / "artifacts"))
    write_run(workspace, "a").end()
    Folder.open(workspace / "runs" / "a").write_json("result.json", {"metrics": {"val/rsum": 300.0}})
    Folder.open(workspace / "runs" / "a").write_json("config.json", {"seed": 0})
    with serving(memory) as place:
        line = ["report", "--workspace", str(workspace), "--tracking", f"http://{place}", "runs=a"]
        ((status, out, error),) = run_many([line], tmp_path)
    assert status == 0, error
    assert Path(out.splitlines()[-1]).name == "summary.json"
    told = {tag["value"] for run in memory.runs.values() for tag in run["data"]["tags"] if tag["key"] == "vse.run_id"}
    assert "a" in told
    assert any(name.startswith("report-") for name in told)
