"""What onlookers read of a sweep is what its ledger and its driver know, and never costs the sweep anything."""

from pathlib import Path

import pytest

from vse.storage import Folder
from vse.sweeps import standing
from vse.sweeps.ledger import Ledger
from vse.sweeps.standing import FILE_NAME, Standing, read_standing


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(Folder.open(tmp_path / "curve-01234567"))


def test_it_is_written_now_and_then_and_at_the_end(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [50.0]
    monkeypatch.setattr(standing.time, "monotonic", lambda: clock[0])
    shown = []
    monkeypatch.setattr(standing, "show_trials", lambda of, states: shown.append((of, dict(states))))
    assert read_standing(ledger.folder) is None
    view = Standing(ledger, "train", 3)
    view.show(0, 2)
    ledger.finish({"x": 1}, {}, 1.0)
    clock[0] += 0.5
    view.show(1, 2)
    found = read_standing(ledger.folder)
    assert found is not None
    assert (found["label"], found["total"], found["done"], found["running"]) == ("train", 3, 0, 2)
    assert shown[-1] == ("curve-01234567", {"waiting": 0, "running": 2, "finished": 1, "failed": 0})
    ledger.fail({"x": 2}, "no luck")
    view.show(3, 0)
    found = read_standing(ledger.folder)
    assert found is not None
    assert (found["done"], found["running"]) == (3, 0)
    assert shown[-1][1]["failed"] == 1


def test_a_search_knows_no_total(ledger: Ledger) -> None:
    Standing(ledger, "trials", None).show(4, 1)
    found = read_standing(ledger.folder)
    assert found is not None
    assert (found["total"], found["done"]) == (None, 4)


def test_what_cannot_be_written_or_read_is_left_out(ledger: Ledger) -> None:
    ledger.folder.write_text(FILE_NAME, '{"label": "train", "total": 3}')
    assert read_standing(ledger.folder) is None
    ledger.folder.write_text(FILE_NAME, "{torn")
    assert read_standing(ledger.folder) is None
    ledger.folder.delete(FILE_NAME)
    ledger.folder.local(FILE_NAME).mkdir()
    Standing(ledger, "train", 1).show(1, 0)
