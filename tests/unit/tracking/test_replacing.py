"""Runs that say something else than what was shipped: reports of extended sweeps, trainings that were made anew."""

import shutil
from pathlib import Path

import pytest

from tests.levels import slow_but
from tests.unit.tracking.test_shipping import client, history, runs_of
from vse.tracking.shipping import Shipper, ship_all
from vse.workspace import journal
from vse.workspace.journal import Journal


def latest(workspace: Path, run: str) -> dict[str, float]:
    """The numbers that MLflow's table of runs shows."""
    return runs_of(workspace)[run].data.metrics


@pytest.mark.seconds
def test_what_a_later_report_says_replaces_what_an_earlier_one_said(workspace: Path) -> None:
    """As when a sweep is extended: its numbers are of one step always."""
    book = Journal(workspace / "sweeps" / "s" / journal.FILE_NAME)
    for objective, trials in ((380.0, 4), (402.0, 8), (395.0, 12)):
        book.start("s")
        book.metrics({"curve": 100 * objective}, step=75)
        book.metrics({"objective": objective, "trials": trials, "left": 0}, step=0)
        book.end()
        assert ship_all(str(workspace)).runs == 1
        assert latest(workspace, "s") == {"objective": objective, "trials": trials, "left": 0, "curve": 100 * objective}
    assert len(history(workspace, "s", "left")) == 1


def retrained(workspace: Path, run: str, start: float, epochs: int, *, ends: bool = True) -> Journal:
    """A run whose folder was removed and that was trained anew."""
    shutil.rmtree(workspace / "runs" / run, ignore_errors=True)
    book = Journal(workspace / "runs" / run / journal.FILE_NAME)
    book.start(run)
    for epoch in range(1, epochs + 1):
        book.metrics({"val/rsum": start + epoch}, step=epoch)
    book.path.with_name("result.json").write_text(f"{start}")
    book.artifact(book.path.with_name("result.json"))
    if ends:
        book.end()
    return book


@pytest.mark.seconds
@pytest.mark.parametrize(
    "epochs", slow_but([1, 2, 3, 4], 1, 3), ids=["shorter", "shorter by an epoch", "as long", "longer"]
)
@pytest.mark.parametrize("lost", [False, True], ids=["", "state lost"])
def test_a_run_that_was_trained_anew_has_its_new_numbers(workspace: Path, epochs: int, lost: bool) -> None:
    retrained(workspace, "a", 100.0, 3)
    assert ship_all(str(workspace)).runs == 1
    first = runs_of(workspace)["a"].info.run_id
    book = retrained(workspace, "a", 200.0, epochs, ends=False)
    if lost:
        (workspace / "mlflow" / "shipped-embedded.json").unlink()
    shipper = Shipper(str(workspace))
    assert [(key, waits) for key, *_, waits in shipper.survey()] == [("runs/a", True)]
    assert shipper.ship().runs == 1
    assert [(key, waits) for key, *_, waits in shipper.survey()] == [("runs/a", False)]
    run = runs_of(workspace)["a"]
    assert (run.info.run_id, run.info.status) == (first, "RUNNING")
    shown = dict(history(workspace, "a", "val/rsum"))  # in MLflow's order, so the later one of a step
    assert [shown[epoch] for epoch in range(1, epochs + 1)] == [200.0 + epoch for epoch in range(1, epochs + 1)]
    sent = client(workspace).download_artifacts(run.info.run_id, "result.json", str(workspace.parent))
    assert Path(sent).read_text() == "200.0"
    book.end()
    assert shipper.ship().runs == 1
    assert runs_of(workspace)["a"].info.status == "FINISHED"


@pytest.mark.seconds
def test_a_journal_of_the_same_length_is_told_from_the_one_that_was_shipped(workspace: Path) -> None:
    """Made anew before a pass saw that it was gone."""
    book = retrained(workspace, "a", 100.0, 3)
    ship_all(str(workspace))
    before = book.path.read_bytes()
    book.path.write_bytes(before.replace(b"101.0", b"201.0").replace(b"102.0", b"202.0").replace(b"103.0", b"203.0"))
    assert book.path.stat().st_size == len(before)
    assert ship_all(str(workspace)).runs == 1
    assert {value for _, value in history(workspace, "a", "val/rsum")} >= {201.0, 202.0, 203.0}
    assert latest(workspace, "a") == {"val/rsum": 203.0}


def test_a_copied_workspace_has_nothing_to_send(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times of its files are new, what they say is not."""
    retrained(workspace, "a", 100.0, 2)
    ship_all(str(workspace))
    monkeypatch.setattr(Shipper, "_connected", lambda self: pytest.fail("nothing is to be sent"))
    copy = workspace.with_name("copy")
    shutil.copytree(workspace, copy, copy_function=shutil.copyfile)
    assert [waits for *_, waits in Shipper(str(copy)).survey()] == [False]
    assert ship_all(str(copy)).trouble == ""
