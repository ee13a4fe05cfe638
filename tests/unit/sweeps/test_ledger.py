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
from vse.storage import folder as folders
from vse.storage.folder import Folder
from vse.storage.object_store import ObjectStore
from vse.sweeps.budget import Resources
from vse.sweeps.ledger import (
    RUNNING,
    FailureKind,
    Ledger,
    open_sweep,
    sole_owner,
    stem,
    sweep_name,
    trial_id,
)
from vse.sweeps.ledger_file import FILE_NAME
from vse.workspace.layout import Workspace

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
    finished = again.get(A)
    assert finished is not None
    assert finished.result == {"rsum": 123.456789012345, "name": "ä"}
    entry = again.get(B)
    assert entry is not None
    assert (entry.state, entry.error, entry.attempts) == ("failed", "ValueError: no", 1)
    assert dataclasses.replace(entry, error="Traceback:\n  line 3\nValueError: no\n").why == "ValueError: no"
    assert dataclasses.replace(entry, error="").why == "no message"


def test_what_was_spent_adds_up_over_attempts_and_calls(folder: Folder) -> None:
    Ledger(folder).fail(A, "no", 3600.0)
    again = Ledger(folder)
    again.fail(A, "no", 3600.0)
    assert again.spent(A) == Ledger(folder).spent(A) == 7200.0
    again.finish(A, {"seconds": 5000.0, "trained": True}, 1000.0)  # its training counts what the failures had made
    entry = Ledger(folder).get(A)
    assert entry is not None
    assert (entry.spent, entry.seconds, entry.attempts) == (8200.0, 1000.0, 3)
    again.finish(B, {"seconds": 5000.0, "trained": True}, 1000.0)  # begun by somebody else
    again.finish(C, {"seconds": 5000.0, "trained": False}, 1.0)
    assert [Ledger(folder).spent(changes) for changes in (B, C)] == [5000.0, 1.0]


def test_attempts_cut_off_with_their_driver_count(folder: Folder) -> None:
    """Killed twice while A ran, once while B was tried again; then both end."""
    first = Ledger(folder)
    first.fail(B, "no", 5.0)
    first.keep_running([(A, 100.0, Resources()), (B, 50.0, Resources())])
    first.keep_running([(A, 110.0, Resources()), (B, 60.0, Resources())])
    second = Ledger(folder)
    assert (second.spent(A), second.spent(B)) == (110.0, 65.0)
    second.keep_running([(A, 30.0, Resources())])
    third = Ledger(folder)
    assert (third.spent(A), third.spent(B)) == (140.0, 65.0)
    third.keep_running([(A, 1.0, Resources()), (B, 1.0, Resources())])
    assert third.finish(A, {}, 7.0).spent == 147.0  # what it was keeping of this attempt is in these 7 s
    unkept = Ledger(folder)  # killed before the file was written again
    assert (unkept.spent(A), unkept.spent(B)) == (147.0, 66.0)
    assert unkept.fail(B, "no", 4.0).spent == 70.0
    unkept.keep_running([])
    assert folder.read_json(RUNNING) == {}
    assert sorted(seconds for seconds, _ in Ledger(folder).costs()) == [70.0, 147.0]


def test_what_trials_had_while_they_ran_is_kept(folder: Folder) -> None:
    """By hand: 300 s of a whole GPU, cut off once at half of one for 100 s, then 200 s of an eighth."""
    whole, half, eighth = Resources(cpus=2, gpus=1), Resources(cpus=1, gpus=0.5), Resources(cpus=1, gpus=0.125)
    Ledger(folder).fail(A, "no", 300.0, whole)
    Ledger(folder).keep_running([(A, 100.0, half), (B, 7.0, half)])
    ledger = Ledger(folder)
    assert ledger.costs() == [(300.0, whole), (100.0, half), (7.0, half)]
    entry = ledger.finish(A, {}, 200.0, eighth)
    assert entry.need.cpus == pytest.approx((300 * 2 + 100 + 200) / 600, abs=1e-6)
    assert entry.need.gpus == pytest.approx((300 + 50 + 25) / 600, abs=1e-6)
    assert Ledger(folder).get(A) == entry
    ledger.keep_running([(B, 21.0, eighth)])
    (_, (seconds, need)) = Ledger(folder).costs()
    assert (seconds, need.gpus) == (28.0, pytest.approx((7 * 0.5 + 21 * 0.125) / 28, abs=1e-6))
    assert ledger.fail(C, "never began", 0.0, eighth).need.gpus == 0.125


def test_the_kind_of_a_failure_is_kept_beside_its_message(folder: Folder) -> None:
    ledger = Ledger(folder)
    for kind in FailureKind:
        ledger.fail({"x": kind}, "Traceback\n  ...\nValueError: no", kind=kind)
    again = Ledger(folder)
    assert [entry.failure for entry in again] == list(FailureKind)
    assert all(entry.error.startswith("Traceback") and entry.why.endswith("ValueError: no") for entry in again)
    assert {entry.failure: entry.why for entry in again}[FailureKind.DIVERGED] == (
        "the training diverged: ValueError: no"
    )
    assert {entry.failure: entry.why for entry in again}[FailureKind.ERROR] == "ValueError: no"
    record = json.loads(folder.read_bytes(FILE_NAME).splitlines()[0])
    folder.write_text(FILE_NAME, json.dumps({**record, "failure": "of another release"}))
    assert len(Ledger(folder)) == 0


@pytest.mark.parametrize("text", ["{torn", "[]", '{"a": 1}', '{"a": {"seconds": "?"}}'])
def test_a_damaged_note_of_what_ran_is_left_out(folder: Folder, text: str) -> None:
    folder.write_text(RUNNING, text)
    ledger = Ledger(folder)
    assert ledger.costs() == []
    ledger.finish(A, {}, 1.0)
    ledger.keep_running([(B, 2.0, Resources())])
    assert Ledger(folder).spent(B) == 2.0


def test_a_retry_replaces_the_failure_and_counts(folder: Folder) -> None:
    ledger = Ledger(folder)
    ledger.fail(A, "x")
    ledger.finish(A, {"v": 1}, 2)
    entry = Ledger(folder).get(A)
    assert entry is not None
    assert (entry.state, entry.attempts, entry.error) == ("finished", 2, "")
    assert ledger.get(B) is None


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


@pytest.mark.parametrize(
    ("preset", "name"),
    [
        ("univse_scenes", "univse_scenes"),
        ("/a/müller.json", "m_ller"),
        ("_mine.json", "mine"),
        ("s3://b/--.json?region=eu", "run"),
        (None, "run"),
    ],
)
def test_names_of_files_become_names_of_folders(tmp_path: Path, preset: str | None, name: str) -> None:
    assert stem(preset) == name
    assert Workspace.open(str(tmp_path)).sweep(sweep_name(stem(preset), {}))


def test_a_name_used_again_with_another_space_is_an_error(tmp_path: Path) -> None:
    space = Workspace.open(str(tmp_path))
    open_sweep(space, "curve", {"space": {"model.alpha": [1, 2]}, "config": {"lr": 1.0}})
    with pytest.raises(
        InputError, match=r"sweep.name=curve: already used .*space.model.alpha was \[1, 2\], is \[1, 3\]"
    ):
        open_sweep(space, "curve", {"space": {"model.alpha": [1, 3]}, "config": {"lr": 1.0}})
    open_sweep(space, "curve-2", {"space": {"model.alpha": [1, 3]}})
    open_sweep(space, "curve", {"space": {"model.alpha": [1, 3]}}, exclusive=False)


@pytest.mark.parametrize("damaged", ["", "[1, 2]", "3", "{}", "null"])
def test_a_name_whose_definition_is_damaged_is_an_error_too(tmp_path: Path, damaged: str) -> None:
    space = Workspace.open(str(tmp_path))
    open_sweep(space, "curve", {"space": [1, 2]}).write_bytes("definition.json", damaged.encode())
    with pytest.raises(InputError, match=r"already used for another sweep, curve-[0-9a-f]{8}; choose another name"):
        open_sweep(space, "curve", {"space": [1, 3]})


@pytest.mark.process
def test_one_job_at_a_time(folder: Folder) -> None:
    code = (
        "import sys; from vse.storage.folder import Folder; from vse.sweeps.ledger import sole_owner\n"
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


@pytest.mark.process
def test_on_s3_who_comes_back_to_a_sweep_that_another_took_over_overwrites_nothing() -> None:
    with s3.server() as place:
        remote = Folder.open(s3.address(place, "ledger"))
        hung = Ledger(remote)
        hung.finish(A, {"rsum": 1.0}, 1.0)
        hung.keep_running([(B, 5.0, Resources())])
        other = Ledger(remote)
        other.keep_running([(C, 3.0, Resources())])
        noted = remote.read_json(RUNNING)
        assert {each["seconds"] for each in noted.values()} == {5.0, 3.0}
        hung.keep_running([(B, 9.0, Resources())])
        assert remote.read_json(RUNNING) == noted
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


@pytest.mark.process
def test_on_s3_a_long_ledger_continues_in_further_files(monkeypatch: pytest.MonkeyPatch, folder: Folder) -> None:
    monkeypatch.setattr("vse.sweeps.ledger_file.PART_BYTES", 500)  # lines have about 300 bytes: two to a file
    with s3.server() as place:
        remote = Folder.open(s3.address(place, "parts"))
        first = Ledger(remote)
        for k in range(5):
            first.finish({"x": k}, {"v": k}, 1.0)
        assert remote.names() == ("ledger-1.jsonl", "ledger-2.jsonl", "ledger.jsonl")
        assert list(Ledger(remote)) == list(first)
        for k in range(5, 8):  # the last file of `late` has room, is full, has room
            late, other = Ledger(remote), Ledger(remote)
            other.finish({"x": k}, {"v": k}, 1.0)
            with pytest.raises(StorageError, match="another job works on this"):
                late.finish({"x": "late"}, {}, 1.0)
        assert [entry.changes["x"] for entry in Ledger(remote)] == list(range(8))
        for name in remote.names():
            folder.write_bytes(name, remote.read_bytes(name))
    copy = Ledger(folder)  # on a disk the last file grows
    for k in range(8, 12):
        copy.finish({"x": k}, {"v": k}, 1.0)
    assert [entry.changes["x"] for entry in Ledger(folder)] == list(range(12))
    assert len(folder.names()) == 4


@pytest.fixture
def remote(s3_proxy: s3.Proxy, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Folder:
    """A folder behind the proxy, each of whose requests is sent once."""
    monkeypatch.setattr(folders, "_remote", lambda uri: dataclasses.replace(ObjectStore.open(uri), outage=0.0))
    return Folder.open(s3.address_of(request, s3_proxy.place))


@pytest.mark.process
def test_on_s3_a_note_is_written_after_one_whose_answer_was_lost(remote: Folder, s3_proxy: s3.Proxy) -> None:
    ledger = Ledger(remote)
    for fault, seconds in (("lose", 10.0), ("", 40.0), ("lose", 70.0), ("drop", 100.0), ("lose", 130.0), ("", 3000.0)):
        s3_proxy.faults = [("PUT", fault)]
        ledger.keep_running([(A, seconds, Resources())])
    assert [each["seconds"] for each in remote.read_json(RUNNING).values()] == [3000.0]


@pytest.mark.process
@pytest.mark.parametrize("part_bytes", [10_000, 500], ids=["one file", "two lines to a file"])
def test_on_s3_lines_whose_answer_was_lost_are_recorded_once(
    remote: Folder, s3_proxy: s3.Proxy, monkeypatch: pytest.MonkeyPatch, part_bytes: int
) -> None:
    """The server has some of them and lacks others."""
    monkeypatch.setattr("vse.sweeps.ledger_file.PART_BYTES", part_bytes)
    ledger, faults = Ledger(remote), ("lose", "drop", "", "lose", "", "drop", "lose", "lose", "drop", "")
    for k, fault in enumerate(faults):
        s3_proxy.faults = [("PUT", fault)]
        if fault:
            with pytest.raises(StorageError):
                ledger.finish({"x": k}, {"v": k}, 1.0)
        else:
            ledger.finish({"x": k}, {"v": k}, 1.0)
            assert list(Ledger(remote)) == list(ledger)
            assert [entry.changes["x"] for entry in ledger] == list(range(k + 1))
    assert ledger.states == {"finished": len(faults)}
    lines = b"".join(remote.read_bytes(name) for name in remote.names()).splitlines()
    assert len(lines) == len(faults)


@pytest.mark.process
def test_on_s3_the_last_lines_can_be_tried_again(remote: Folder, s3_proxy: s3.Proxy) -> None:
    ledger = Ledger(remote)
    ledger.retry()
    assert s3_proxy.seen.count("PUT") == 0
    s3_proxy.faults = [("PUT", "drop")] * 3
    for changes in (A, B):
        with pytest.raises(StorageError):
            ledger.finish(changes, {}, 1.0)
    with pytest.raises(StorageError):
        ledger.retry()
    ledger.retry()
    assert [entry.changes for entry in ledger] == [A, B]
    ledger.finish(C, {}, 1.0)
    assert list(Ledger(remote)) == list(ledger)
    assert len(ledger) == 3


@pytest.mark.process
def test_on_s3_a_lost_answer_is_no_pretext_to_overwrite_another_job(remote: Folder, s3_proxy: s3.Proxy) -> None:
    hung = Ledger(remote)
    s3_proxy.faults = [("PUT", "lose")]
    with pytest.raises(StorageError):
        hung.finish(A, {}, 1.0)
    other = Ledger(remote)
    other.finish(B, {}, 1.0)
    for _ in range(2):
        with pytest.raises(StorageError, match="another job works on this"):
            hung.finish(C, {}, 1.0)
    assert [entry.changes for entry in Ledger(remote)] == [A, B]
    assert len(hung) == 0
