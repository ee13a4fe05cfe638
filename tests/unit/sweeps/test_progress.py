"""The progress of a running sweep: epochs of running trials, and the file that `jobs/status.py` reads."""

from pathlib import Path

import pytest

from vse.display.progress import Parts, Progress
from vse.storage.folder import Folder
from vse.sweeps import progress
from vse.sweeps.ledger import Ledger
from vse.sweeps.progress import FILE_NAME, EpochCounter, Epochs, ProgressFile, read_sweep_progress


def test_epochs_of_running_and_ended_trials_add_up() -> None:
    counter = EpochCounter()
    counter.reported("a", Epochs(3, 10))
    counter.reported("b", Epochs(1, 5))
    assert (counter.parts.share, counter.parts.count) == (pytest.approx(0.5), 4)
    counter.reported("a", Epochs(4, 10))
    counter.ended("a")
    assert (counter.parts.share, counter.parts.count) == (pytest.approx(0.2), 5)


def test_epochs_of_earlier_processes_are_done_but_say_nothing_of_the_rate() -> None:
    counter = EpochCounter()
    counter.reported("a", Epochs(6, 10, 5))
    parts = counter.parts
    assert (parts.share, parts.earlier, parts.count) == (0.6, 0.5, 1)
    counter.ended("a")
    assert (counter.parts.share, counter.parts.earlier, counter.parts.count) == (0, 0.5, 1)


def test_a_retried_trial_counts_its_epochs_once() -> None:
    counter = EpochCounter()
    counter.reported("a", Epochs(4, 10))
    counter.ended("a", retried=True)
    counter.reported("a", Epochs(7, 10, 4))
    assert (counter.parts.share, counter.parts.count) == (0.7, 7)
    counter.ended("a")
    assert (counter.parts.earlier, counter.parts.count) == (0.4, 7)


def test_a_trial_without_epochs_changes_nothing() -> None:
    counter = EpochCounter()
    counter.ended("measure")
    assert (counter.parts.share, counter.parts.earlier, counter.parts.count) == (0, 0, 0)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(Folder.open(tmp_path / "curve-01234567"))


def test_it_is_written_now_and_then_and_at_the_end(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [50.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    shown = []
    monkeypatch.setattr(progress, "show_trials", lambda of, states, **_: shown.append((of, dict(states))))
    assert read_sweep_progress(ledger.folder) is None
    view, bar = ProgressFile(ledger), Progress("train", total=3, unit="trials")
    bar.parts = Parts(share=0.75, count=6, unit="epochs")
    view.show(bar, 2, 0)
    ledger.finish({"x": 1}, {}, 1.0)
    clock[0] += 0.5
    bar.done = 1
    view.show(bar, 2, 0)
    found = read_sweep_progress(ledger.folder)
    assert found is not None
    assert (found.label, found.total, found.done, found.running, found.share) == ("train", 3, 0, 2, 0.25)
    assert found.rate.startswith("6 epochs, ")
    assert shown[-1] == ("curve-01234567", {"waiting": 0, "running": 2, "finished": 1, "failed": 0})
    ledger.fail({"x": 2}, "no luck")
    view.show(bar, 1, 0)
    assert shown[-1][1]["failed"] == 0  # it is retried
    bar.done, bar.parts = 3, Parts(count=20, unit="epochs")
    view.show(bar, 0, 1)
    found = read_sweep_progress(ledger.folder)
    assert found is not None
    assert (found.done, found.running, found.failed, found.left) == (3, 0, 1, None)
    assert shown[-1][1]["failed"] == 1


def test_a_sweep_that_ends_with_trials_left_shows_none_that_waits(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a cap, or in a search without new points. The alert `JobEnded` would fire after the last metrics."""
    shown: list[tuple[dict[str, int], bool]] = []
    monkeypatch.setattr(progress, "show_trials", lambda of, states, last=False: shown.append((dict(states), last)))
    view, bar = ProgressFile(ledger), Progress("train", total=10, unit="trials")
    ledger.finish({"x": 1}, {}, 1.0)
    bar.done = 2
    view.show(bar, 0, 1)
    assert shown.pop() == ({"waiting": 8, "running": 0, "finished": 1, "failed": 1}, False)
    view.show_end(1)
    assert shown.pop() == ({"waiting": 0, "running": 0, "finished": 1, "failed": 1}, True)


def test_a_search_knows_no_total(ledger: Ledger) -> None:
    bar = Progress("trials")
    bar.done = 4
    ProgressFile(ledger).show(bar, 1, 0)
    found = read_sweep_progress(ledger.folder)
    assert found is not None
    assert (found.total, found.done, found.share, found.left) == (None, 4, None, None)


def test_what_cannot_be_written_or_read_is_left_out(ledger: Ledger) -> None:
    ledger.folder.write_text(FILE_NAME, '{"label": "train", "total": 3}')
    assert read_sweep_progress(ledger.folder) is None
    ledger.folder.write_text(FILE_NAME, "{torn")
    assert read_sweep_progress(ledger.folder) is None
    ledger.folder.delete(FILE_NAME)
    ledger.folder.local(FILE_NAME).mkdir()
    ProgressFile(ledger).show(Progress("train", total=1), 0, 0)


def test_a_store_that_is_slow_is_written_to_rarely(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, writes = [0.0], []
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])

    def write(name: str, content: object) -> None:
        writes.append(clock[0])
        clock[0] += 1.0

    monkeypatch.setattr(Folder, "write_json", lambda self, name, content: write(name, content))
    view = ProgressFile(ledger)
    for _ in range(120):
        view.show(Progress("train", total=3), 1, 0)
        clock[0] += 1.0
    assert writes == [0.0, 50.0, 100.0]
