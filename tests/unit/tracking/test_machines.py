"""Two machines that ship one workspace on S3 to one MLflow (a server on this machine plays S3)."""

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests import s3
from tests.levels import slow
from vse.storage.folder import Folder
from vse.tracking import store
from vse.tracking.shipping import Shipper
from vse.workspace import journal
from vse.workspace.journal import Journal

URI = "http://127.0.0.1:9"


class Served:
    """A server that looks for runs and makes them, each in a moment; many clients may be there at once."""

    made: Counter[str]
    runs: dict[str, dict[Any, Any]]

    def __init__(self, *_: Any) -> None:
        pass

    def find_or_create(self, experiment: str, run: str, **more: Any) -> tuple[str, bool]:
        there = run in Served.runs
        time.sleep(0.3)  # between the look and the making
        if not there:
            Served.made[run] += 1
            Served.runs.setdefault(run, {})
        return run, there

    def experiment_id(self, name: str) -> str:
        return name

    def logged(self, run_id: str) -> tuple[set[str], dict[Any, Any]]:
        return set(), dict(Served.runs[run_id])

    def stage(self, run_id: str) -> str:
        return "active" if run_id in Served.runs else ""

    def send(self, run_id: str, *, metrics: dict[Any, Any], **_: Any) -> None:
        Served.runs[run_id] |= metrics

    def set_status(self, run_id: str, status: str, ended: int) -> None:
        Served.runs[run_id]["status"] = status

    def prepare_queries(self) -> None:
        """A server does so itself."""

    def answers(self) -> bool:
        return True


@pytest.fixture
def workspace(s3_server: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(store, "Store", Served)
    monkeypatch.setattr(Served, "made", Counter(), raising=False)
    monkeypatch.setattr(Served, "runs", {}, raising=False)
    return s3.address_of(request, s3_server)


@pytest.fixture
def machine(workspace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes shippers of other machines, each with its own disk."""

    def made(name: str, at: str = workspace, uri: str = URI) -> Shipper:
        monkeypatch.setenv("VSE_CACHE", str(tmp_path / name))
        return Shipper(at, uri)

    return made


def write_run(workspace: str, run: str, tmp_path: Path) -> Journal:
    book = journal.open_in(Folder.open(workspace).child("runs", run), tmp_path / "scratch")
    book.start(run, parent="sweep")
    book.metrics({"loss": 1.0}, step=1)
    return book


@pytest.mark.parametrize("other", [URI, *slow(["http://localhost:9"])], ids=["one address", "two addresses"])
def test_no_run_is_made_twice(workspace: str, machine: Any, tmp_path: Path, other: str) -> None:
    for run in "abc":
        write_run(workspace, run, tmp_path).end()
    shippers = [machine("one"), machine("two", uri=other)]
    threads = [threading.Thread(target=shipper.ship) for shipper in shippers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Served.made == Counter(["a", "b", "c", "sweep"])
    assert all(Served.runs[run]["status"] == "finished" for run in "abc")
    assert [shipper.ship().runs for shipper in shippers] == [0, 0]


def test_what_another_machine_wrote_while_this_one_waited_is_sent(workspace: str, machine: Any, tmp_path: Path) -> None:
    """Or a status from before would be told after the one that came later."""
    book, shipper, results = write_run(workspace, "a", tmp_path), machine("one"), list[Any]()
    with Folder.open(workspace).child("mlflow", "shipper").locked():
        thread = threading.Thread(target=lambda: results.append(shipper.ship()))
        thread.start()
        time.sleep(1)
        book.metrics({"loss": 0.5}, step=2)
        book.end()
    thread.join()
    assert (results[0].runs, results[0].trouble) == (1, "")
    assert Served.runs["a"]["status"] == "finished"
    assert {step for _, step in Served.runs["a"].keys() - {"status"}} == {1, 2}


def test_while_another_machine_ships_this_one_spools(
    workspace: str, machine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vse.storage.folder.DEAD_AFTER", 0.5)
    write_run(workspace, "a", tmp_path)
    with Folder.open(workspace).child("mlflow", "shipper").locked():
        result = machine("one").ship()
    assert (result.runs, result.waiting, result.trouble) == (0, 1, "another job is shipping this workspace")
    assert Served.made == Counter()


@pytest.mark.slow
def test_a_pass_with_nothing_to_send_lists_and_no_more(
    workspace: str, machine: Any, s3_server: str, tmp_path: Path
) -> None:
    for run in "abc":
        write_run(workspace, run, tmp_path).end()
    with s3.proxied(s3_server) as proxy:
        shipper = machine("one", workspace.replace(s3_server, proxy.place))
        assert shipper.ship().runs == 3
        assert proxy.seen.count("PUT") == 1
        proxy.seen.clear()
        for _ in range(3):
            assert shipper.ship().runs == 0
        assert proxy.seen == ["GET"] * 3 * 6  # of runs, ensembles, sweeps, reports, comparisons and galleries


@pytest.mark.slow
def test_a_pass_with_something_to_send_lists_no_more_often(
    workspace: str, machine: Any, s3_server: str, tmp_path: Path
) -> None:
    for run in "bc":
        write_run(workspace, run, tmp_path).end()
    book = write_run(workspace, "a", tmp_path)
    with s3.proxied(s3_server) as proxy:
        shipper = machine("one", workspace.replace(s3_server, proxy.place))
        assert shipper.ship().runs == 3
        book.metrics({"loss": 0.5}, step=2)
        proxy.seen.clear()
        assert shipper.ship().runs == 1
        assert proxy.seen.count("GET") <= 6 + 2  # listings, the journal that grew, its lease
    assert {step for _, step in Served.runs["a"]} == {1, 2}


def test_a_store_on_this_machine_is_nobody_elses(
    workspace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VSE_CACHE", str(tmp_path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setattr(Folder, "taken", lambda *_: pytest.fail("a lease is taken"))
    write_run(workspace, "a", tmp_path)
    assert Shipper(workspace).ship().runs == 1
