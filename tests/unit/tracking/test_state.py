"""What was shipped is forgotten where MLflow has lost it, whatever its address."""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.tracking.test_run import Store
from tests.unit.tracking.test_shipping import write_run
from vse.tracking.run import ShippingState, newest, read_state, write_state
from vse.tracking.shipping import Shipper
from vse.workspace.journal import FILE_NAME, Journal


def test_the_state_is_what_was_written_and_nothing_where_it_is_torn(tmp_path: Path) -> None:
    file, sent = (
        tmp_path / "shipped.json",
        {"runs/a": ShippingState("1", 12, files={"|x": "1-2"}), "runs/b": ShippingState("2")},
    )
    assert read_state(file) == {}
    write_state(file, sent)
    assert read_state(file) == sent
    assert [path.name for path in tmp_path.iterdir()] == ["shipped.json"]
    for torn in ("{", "[]", '{"runs/a": 3}', '{"runs/a": {"id": 3}}'):
        file.write_text(torn)
        assert read_state(file) == {}


def test_the_state_tells_a_journal_that_goes_on_from_another() -> None:
    sent = ShippingState("1")
    assert sent.begins(b"one\n")
    sent.reached(b"one\n", "4-1")
    assert (sent.offset, sent.tag) == (4, "4-1")
    assert sent.begins(b"one\ntwo\n")
    assert not any(map(sent.begins, (b"", b"one", b"two\n", b"two\nthree\n")))


def test_the_run_to_ask_for_is_the_last_that_was_not_refused() -> None:
    a, b, c = ShippingState("a"), ShippingState("b"), ShippingState("c", refused=True)
    assert newest({"a": a, "b": b, "c": c}) == "b"
    assert newest({"c": c}) == "c"


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with its tables and nothing else."""
    from vse.tracking.store import Store as MlflowStore

    database = tmp_path_factory.mktemp("empty") / "mlflow.db"
    MlflowStore(f"sqlite:///{database}", database.parent / "artifacts")
    return database


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("place", ["mlflow/mlflow.db", "elsewhere.db"])
def test_a_lost_store_is_filled_again_where_all_runs_have_ended(place: str, tmp_path: Path, empty_store: Path) -> None:
    """Each job a process of its own: MLflow remembers what it opened."""
    database = tmp_path / place
    database.parent.mkdir(exist_ok=True)
    shutil.copy(empty_store, database)
    write_run(tmp_path, "a").end()
    code = """
import sys
from vse.tracking.shipping import Shipper
shipper = Shipper(*sys.argv[1:])
print(sum(waits for *_, waits in shipper.survey()), shipper.ship().runs)
"""

    def job() -> list[str]:
        command = [sys.executable, "-c", code, str(tmp_path), f"sqlite:///{database}"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    assert [job(), job()] == [["1", "1"], ["0", "0"]]
    for file in database.parent.glob(f"{database.name}*"):
        file.unlink()
    assert not database.exists()
    if place == "elsewhere.db":
        shutil.copy(empty_store, database)  # a new store; the other is made by the job
    assert job() == ["1", "1"]


class Served(Store):
    """A server of which it is known what it has; every connection is counted."""

    runs: frozenset[str] = frozenset()
    asked: tuple[str, ...] = ()

    def __init__(self, *_: Any) -> None:
        super().__init__()

    def find_or_create(self, experiment: str, run: str, **more: Any) -> tuple[str, bool]:
        there = run in Served.runs
        Served.runs |= {run}
        return run, there

    def logged(self, run_id: str) -> tuple[set[str], dict[tuple[str, int], tuple[float, int]]]:
        return set(), {}

    def stage(self, run_id: str) -> str:
        Served.asked += (run_id,)
        return "active" if run_id in Served.runs else ""


def test_a_server_that_lost_its_runs_gets_them_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One question a connection; also where all runs have ended, and where it lost only what came last."""
    from vse.tracking import store

    monkeypatch.setattr(store, "Store", Served)
    monkeypatch.setattr(Served, "runs", frozenset())
    monkeypatch.setattr(Served, "asked", ())
    uri = "http://127.0.0.1:9"
    for run in ("a", "b"):
        book = Journal(tmp_path / "runs" / run / FILE_NAME)
        book.start(run)
        book.end()
    assert Shipper(str(tmp_path), uri).ship().runs == 2
    assert Served.asked == ()  # nothing was sent there before
    shipper = Shipper(str(tmp_path), uri)
    assert [shipper.ship().runs, shipper.ship().runs] == [0, 0]
    assert Served.asked == ("b",)
    for left in (frozenset(), frozenset({"a"})):
        Served.runs = left
        assert Shipper(str(tmp_path), uri).ship().runs == 2
        assert Served.runs == {"a", "b"}
