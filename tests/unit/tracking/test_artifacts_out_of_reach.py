"""A server that answers, and whose store of artifacts does not."""

import time
from pathlib import Path

import pytest

from tests.unit.tracking.test_shipping import write_run
from vse.tracking import shipping
from vse.tracking.run import RunShipper
from vse.tracking.shipping import ship_all

pytestmark = pytest.mark.seconds


@pytest.mark.parametrize(("slow", "tried"), [(0.0, 6), (1.0, 3)], ids=["refused at once", "no answer in time"])
def test_where_artifacts_find_no_store_a_pass_gives_up(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, slow: float, tried: int
) -> None:
    """A job would otherwise wait at its end for as many timeouts as there are runs."""
    tries = []

    def fail(self: RunShipper, states: object, key: str, pending: object) -> None:
        tries.append(key)
        time.sleep(slow)
        raise OSError("s3://bucket: connection timed out")

    for run in "abcdef":
        write_run(workspace, run)
    monkeypatch.setattr(RunShipper, "ship", fail)
    monkeypatch.setattr(shipping, "_SLOW", 0.5)
    result = ship_all(str(workspace))
    assert len(tries) == tried
    assert (result.runs, result.waiting) == (0, 6)
    assert "connection timed out" in result.trouble
