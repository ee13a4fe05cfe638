"""A store that changes under a living job, behind one address: brought back from a copy, emptied, tidied by a user."""

import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.levels import slow_but
from tests.unit.tracking.test_shipping import client, runs_of, write_run
from vse.tracking import store as stores
from vse.tracking.run import ShippingState, write_state
from vse.tracking.shipping import Shipper, ship_all
from vse.tracking.store import Store

URI = "http://127.0.0.1:9"


def copied(database: Path, to: Path) -> None:
    """As an administrator does it: the file stays, what is in it is another's."""
    with closing(sqlite3.connect(database)) as source, closing(sqlite3.connect(to)) as target:
        source.backup(target)


@pytest.fixture
def behind_a_server(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The database of a server that is this process's: the shipper sees an address and no file."""
    database, connect = workspace / "mlflow" / "mlflow.db", stores.Store
    monkeypatch.setattr(
        stores, "Store", lambda *_: connect(f"sqlite:///{database}", workspace / "mlflow" / "artifacts")
    )
    return database


def everything_is_there(workspace: Path, *names: str) -> None:
    runs = runs_of(workspace)
    assert runs.keys() == {*names}
    for name in names:
        assert runs[name].data.metrics["val/rsum"] >= 102
        assert len(client(workspace).get_metric_history(runs[name].info.run_id, "val/rsum")) >= 2


@pytest.mark.seconds
@pytest.mark.parametrize("news", slow_but(["metrics", "end", "file", "another run"], "metrics"))
def test_a_server_whose_database_is_brought_back_gets_what_came_after(
    news: str, workspace: Path, behind_a_server: Path, tmp_path: Path
) -> None:
    """Whatever is new then, of a run that came after the copy too; `b` has ended, and says nothing more."""
    shipper, names = Shipper(str(workspace), URI), ["a", "b", "c"]
    write_run(workspace, "a").end()
    assert shipper.ship().runs == 1
    copied(behind_a_server, tmp_path / "copy.db")
    write_run(workspace, "b").end()
    book = write_run(workspace, "c")
    assert shipper.ship().runs == 2
    copied(tmp_path / "copy.db", behind_a_server)
    match news:
        case "metrics":
            book.metrics({"val/rsum": 110.0}, step=3)
        case "end":
            book.end()
        case "file":
            book.path.with_name("table.json").write_text("{}")
            book.artifact(book.path.with_name("table.json"))
        case "another run":
            write_run(workspace, "d")
            names.append("d")
    shipped = shipper.ship()
    assert (shipped.waiting, shipped.trouble) == (0, "")
    everything_is_there(workspace, *names)


@pytest.mark.seconds
@pytest.mark.parametrize("served", [True, False], ids=["server", "file"])
def test_an_emptied_store_is_filled_by_the_job_that_lives_then(
    served: bool, workspace: Path, tmp_path: Path, fresh_store: Path, request: pytest.FixtureRequest
) -> None:
    """Its experiments have other numbers, or none."""
    database = workspace / "mlflow" / "mlflow.db"
    if served:
        assert request.getfixturevalue("behind_a_server") == database
    shipper = Shipper(str(workspace), URI if served else None)
    write_run(workspace, "a").end()
    assert shipper.ship().runs == 1
    copied(fresh_store, database)
    write_run(workspace, "b")
    shipped = shipper.ship()
    assert (shipped.runs, shipped.waiting, shipped.trouble) == (2, 0, "")
    everything_is_there(workspace, "a", "b")


@pytest.mark.seconds
@pytest.mark.parametrize("when", ["find_or_create", "send", "set_status"])
def test_a_database_that_is_brought_back_in_the_middle_of_a_pass(
    when: str, workspace: Path, behind_a_server: Path, fresh_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the pass had sent before is sent again; `known` of a run that is there adds nothing."""
    for run in "abc":
        write_run(workspace, run).end()
    calls, does = list[str](), getattr(Store, when)

    def swapped(self: Store, *args: Any, **more: Any) -> Any:
        calls.append(when)
        if len(calls) == 2:
            copied(fresh_store, behind_a_server)
        return does(self, *args, **more)

    monkeypatch.setattr(Store, when, swapped)
    shipped = Shipper(str(workspace), URI).ship()
    assert (shipped.runs, shipped.waiting, shipped.trouble) == (3, 0, "")
    everything_is_there(workspace, "a", "b", "c")


def test_a_store_that_loses_all_it_is_sent_is_not_sent_to_for_ever(
    workspace: Path, behind_a_server: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(workspace, "a")
    monkeypatch.setattr(Store, "find_or_create", lambda *_, **__: ("0" * 32, False))
    shipped = Shipper(str(workspace), URI).ship()
    assert (shipped.runs, shipped.waiting) == (0, 1)
    assert "gone as soon as they are sent" in shipped.trouble


def test_an_experiment_that_is_deleted_under_a_job_is_found_again(workspace: Path) -> None:
    store = Store(f"sqlite:///{workspace}/mlflow/mlflow.db", workspace / "mlflow" / "artifacts")
    store.find_or_create("alpha", "a", name="a", started=1)
    found = client(workspace)
    found.delete_experiment(found.get_experiment_by_name("alpha").experiment_id)
    with pytest.raises(Exception, match="active"):
        store.find_or_create("alpha", "b", name="b", started=1)
    assert store.find_or_create("alpha", "b", name="b", started=1)[1] is False


@pytest.mark.parametrize("served", [True, False], ids=["server", "file"])
def test_a_run_that_was_restored_is_sent_again_by_the_next_job(
    served: bool, workspace: Path, request: pytest.FixtureRequest
) -> None:
    if served:
        request.getfixturevalue("behind_a_server")
    uri = URI if served else None
    book = write_run(workspace, "a")
    write_run(workspace, "b").end()
    ship_all(str(workspace), uri)
    run_id = runs_of(workspace)["a"].info.run_id
    client(workspace).delete_run(run_id)
    book.end()  # no number, a status only
    for _ in range(2):
        assert ship_all(str(workspace), uri).trouble == ""
        assert runs_of(workspace).keys() == {"b"}
    client(workspace).restore_run(run_id)
    shipper = Shipper(str(workspace), uri)
    assert [shipper.ship().runs, shipper.ship().runs] == [1, 0]
    assert runs_of(workspace)["a"].info.status == "FINISHED"


def test_a_deleted_run_stays_deleted_where_all_journals_are_looked_at_again(workspace: Path) -> None:
    for run in "ab":
        write_run(workspace, run).end()
    ship_all(str(workspace))
    client(workspace).delete_run(runs_of(workspace)["a"].info.run_id)
    (workspace / "mlflow" / "shipped-embedded.json").unlink()
    assert ship_all(str(workspace)).trouble == ""
    assert runs_of(workspace).keys() == {"b"}
    assert ship_all(str(workspace)).runs == 0


@pytest.mark.process
@pytest.mark.slow
def test_what_waits_is_told_where_the_server_it_was_sent_to_is_gone(
    workspace: Path, shown: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that comes later asks first whether the server still has what it was sent."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        uri = f"http://127.0.0.1:{listener.getsockname()[1]}"
    shipper = Shipper(str(workspace), uri)
    write_run(workspace, "a")
    shipper._state_file.parent.mkdir(exist_ok=True)
    write_state(shipper._state_file, {"runs/before": ShippingState("0123abcd")})
    result = shipper.ship()
    assert (bool(result.trouble), result.waiting, shown) == (True, 1, [1])
