"""The ledger survives kills, never forgets a finished trial, and a name stands for one definition."""

import dataclasses
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from tests import s3
from vse.errors import InputError, StorageError
from vse.storage import Folder
from vse.sweeps.ledger import FILE_NAME, Ledger, open_sweep, sole_owner, sweep_name, trial_id
from vse.workspace import Workspace

A, B, C = {"model.alpha": 0.1, "seed": 0}, {"model.alpha": 0.2, "seed": 0}, {"model.alpha": 0.3, "seed": 0}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder.open(tmp_path / "sweep")


def test_trial_id_ignores_the_order_of_keys_only() -> None:
    assert trial_id({"a": 1, "b": 2.0}) == trial_id({"b": 2.0, "a": 1})
    assert trial_id({"a": 1}) != trial_id({"a": 2})
    assert len(trial_id(A)) == 8


def test_replay_gives_back_what_was_recorded(folder: Folder) -> None:
    ledger = Ledger(folder)
    ledger.finish(A, {"rsum": 123.456789012345, "name": "ä"}, 1.5)
    ledger.fail(B, "ValueError: no", 0.5)
    again = Ledger(folder)
    assert list(again) == list(ledger)
    assert again.result(A) == {"rsum": 123.456789012345, "name": "ä"}
    entry = again.get(B)
    assert entry is not None
    assert (entry.state, entry.error, entry.attempts) == ("failed", "ValueError: no", 1)
    assert dataclasses.replace(entry, error="Traceback:\n  line 3\nValueError: no\n").why == "ValueError: no"
    assert dataclasses.replace(entry, error="").why == "it did not say why"


def test_pending_are_new_and_failed_trials_once_each_in_order(folder: Folder) -> None:
    ledger = Ledger(folder)
    ledger.finish(B, {}, 1)
    ledger.fail(A, "x")
    assert ledger.pending([C, B, A, C]) == [C, A]


def test_a_retry_replaces_the_failure_and_counts(folder: Folder) -> None:
    ledger = Ledger(folder)
    ledger.fail(A, "x")
    ledger.finish(A, {"v": 1}, 2)
    entry = Ledger(folder).get(A)
    assert entry is not None
    assert (entry.state, entry.attempts, entry.error) == ("finished", 2, "")
    with pytest.raises(KeyError):
        ledger.result(B)


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_a_torn_last_line_costs_that_trial_only(folder: Folder, cut: int) -> None:
    ledger = Ledger(folder)
    for changes in (A, B):
        ledger.finish(changes, {"v": 1}, 1)
    path = folder.local(FILE_NAME)
    path.write_bytes(path.read_bytes()[:-cut])
    torn = Ledger(folder)
    torn.finish(C, {"v": 3}, 1)
    after = Ledger(folder)
    whole = [A, B, C] if cut == 1 else [A, C]  # only the newline was lost in the first case
    assert [e.changes for e in after] == whole


def test_not_a_number_is_refused_before_it_is_written(folder: Folder) -> None:
    ledger = Ledger(folder)
    with pytest.raises(ValueError, match="JSON"):
        ledger.finish(A, {"v": math.nan}, 1)
    assert len(Ledger(folder)) == 0


def test_name_ends_in_the_fingerprint_of_the_definition(tmp_path: Path) -> None:
    space = Workspace.open(str(tmp_path))
    folder = open_sweep(space, "curve", {"space": [1, 2]})
    assert folder.local().name == sweep_name("curve", {"space": [1, 2]})
    assert folder.local().name[:6] == "curve-"
    assert len(folder.local().name) == 14
    assert open_sweep(space, "curve", {"space": [1, 2]}) == folder


def test_a_name_used_again_with_another_space_is_an_error(tmp_path: Path) -> None:
    space = Workspace.open(str(tmp_path))
    open_sweep(space, "curve", {"space": {"model.alpha": [1, 2]}, "config": {"lr": 1.0}})
    with pytest.raises(
        InputError, match=r"sweep.name=curve: already used .*space.model.alpha was \[1, 2\], is \[1, 3\]"
    ):
        open_sweep(space, "curve", {"space": {"model.alpha": [1, 3]}, "config": {"lr": 1.0}})
    open_sweep(space, "curve-2", {"space": {"model.alpha": [1, 3]}})
    open_sweep(space, "curve", {"space": {"model.alpha": [1, 3]}}, exclusive=False)


def test_one_job_at_a_time(folder: Folder) -> None:
    code = (
        "import sys; from vse.storage import Folder; from vse.sweeps.ledger import sole_owner\n"
        "from vse.errors import InputError\n"
        "try:\n    with sole_owner(Folder(sys.argv[1])): print('got it')\n"
        "except InputError as error: print(error)"
    )

    def other() -> str:
        done = subprocess.run([sys.executable, "-c", code, folder.uri], capture_output=True, text=True, timeout=60)
        return done.stdout

    with sole_owner(folder):
        assert "another job is running this sweep" in other()
    assert "got it" in other()


def test_ledger_lines_are_json_objects(folder: Folder) -> None:
    Ledger(folder).finish(A, {"v": 1}, 1)
    record = json.loads(folder.read_bytes(FILE_NAME))
    assert record["changes"] == A
    assert record["id"] == trial_id(A)


def test_on_s3_who_comes_back_to_a_sweep_that_another_took_over_overwrites_nothing() -> None:
    with s3.server() as place:
        remote = Folder.open(s3.address(place, "ledger"))
        hung = Ledger(remote)
        hung.finish(A, {"rsum": 1.0}, 1.0)
        other = Ledger(remote)
        other.finish(B, {"rsum": 2.0}, 1.0)
        with pytest.raises(StorageError, match="another job works on this"):
            hung.finish(C, {"rsum": 3.0}, 1.0)
        other.fail(C, "ValueError: no")
        assert [(entry.changes, entry.state) for entry in Ledger(remote)] == [
            (A, "finished"),
            (B, "finished"),
            (C, "failed"),
        ]
        assert hung.get(C) is None
