"""A workspace in every state, made by hand through the writers that jobs use, and the screen it becomes."""

import json
import os
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest

from vse.display.progress import Parts, Progress
from vse.errors import InputError
from vse.status.overview import JournalCache, Status, StatusRow, read_status
from vse.status.screen import chosen, clock, render, speed, summary
from vse.storage.folder import Folder
from vse.sweeps.budget import Resources
from vse.sweeps.ledger import FailureKind, Ledger
from vse.sweeps.progress import ProgressFile
from vse.workspace.journal import Journal
from vse.workspace.layout import Workspace

SWEEP = "eta-univse_coco-01234567"


@pytest.fixture(autouse=True)
def _no_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "workspace"


def write_run(place: Path, name: str, epochs: int = 3, parent: str = "", **last: float) -> Journal:
    book = Journal(place / "runs" / name / "journal.jsonl")
    book.start(name, name=name, parent=parent)
    book.params({"train.epochs": 10})
    for epoch in range(1, epochs + 1):
        numbers = {"train/seconds": 60.0 + epoch, "val/rsum": 100.0 - epoch, "speed/captions_per_second": 500.0}
        book.metrics({**numbers, "cost/cpu_hours": 2.0 * epoch, "cost/gpu_hours": 1.0 * epoch, **last}, step=epoch)
    return book


@pytest.fixture
def living(place: Path) -> Path:
    """A running sweep of a running and a failed training, a finished run beside it, a store half extracted."""
    write_run(place, "run-s0", parent=SWEEP)
    book = write_run(place, "run-s1", epochs=1, parent=SWEEP)
    book.note("RuntimeError: CUDA out of memory")
    book.end("failed")
    write_run(place, "alone-s0", epochs=10).end("finished")
    write_run(place, "stopped-s0", epochs=2).end("killed")
    folder = Folder.open(place / "sweeps" / SWEEP)
    Journal(place / "sweeps" / SWEEP / "journal.jsonl").start(SWEEP, name=SWEEP)
    ledger = Ledger(folder)
    ledger.finish({"objective.eta_c": 16, "seed": 0}, {"rsum": 1.0}, 1800.0)
    ledger.fail({"objective.eta_c": 8, "seed": 1, "material": "01234567"}, "Traceback\n  ...\nRuntimeError: no luck\n")
    standing, bar = ProgressFile(ledger), Progress("train", total=40, unit="trials")
    standing._started -= 600
    bar._began -= 600
    bar.done, bar.parts, bar.text = 6, Parts(share=1.5, count=75, unit="epochs"), "eta_c=8: epoch 3/10"
    standing.show(bar, 2, 1)
    return place


def lines(place: Path) -> dict[str, StatusRow]:
    return {line.name: line for line in read_status(Workspace.open(str(place))).rows}


def test_a_running_training(living: Path) -> None:
    line = lines(living)["run-s0"]
    assert (line.kind, line.state, line.done, line.total, line.unit) == ("run", "running", 3, 10, "epochs")
    assert (line.pace, line.left, line.speed, line.score) == (62.0, 7 * 62.0, 500.0, 99.0)
    assert (line.cpu_hours, line.gpu_hours, line.parent) == (6.0, 3.0, SWEEP)
    assert line.age < 60


def test_a_running_sweep_counts_its_trainings(living: Path) -> None:
    line = lines(living)[SWEEP]
    assert (line.state, line.done, line.total, line.unit) == ("running", 6, 40, "train trials")
    assert line.pace == pytest.approx(100, rel=0.05)
    assert line.left == pytest.approx(2600, rel=0.05)  # 32.5 trials to go, 7.5 done in 600 s
    assert line.note == "18 % done, 2 running, 1 failed, 75 epochs, 0.125 epochs/s, eta_c=8: epoch 3/10"
    assert (line.cpu_hours, line.gpu_hours) == (6.0 + 2.0, 3.0 + 1.0)  # two trainings


def test_a_sweep_costs_what_its_ledger_knows_of_all_attempts(living: Path) -> None:
    """Its caps and its row in MLflow have the same. By hand: half an hour of a trial that finished, ten hours of one
    that failed twice, eight of one that runs and whose own line has six, five of one cut off with its job."""
    need, (a, b, c) = Resources(cpus=2, gpus=1), ({"objective.eta_c": value, "seed": 0} for value in (1, 2, 4))
    folder = Folder.open(living / "sweeps" / SWEEP)
    Ledger(folder).fail(a, "no luck", 7200.0, need)
    Ledger(folder).fail(a, "no luck", 10800.0, need)
    Ledger(folder).keep_running([(b, 4 * 3600.0, need), (c, 2.5 * 3600.0, need)])
    spent = Ledger(folder).costs()
    line, hours = lines(living)[SWEEP], 0.5 + 10 + 8 + 5
    assert line.cpu_hours == pytest.approx(hours)
    assert line.cpu_hours == pytest.approx(sum(seconds * need.cpus for seconds, need in spent) / 3600)
    assert line.gpu_hours == pytest.approx(sum(seconds * need.gpus for seconds, need in spent) / 3600) == 11.5
    assert read_status(Workspace.open(str(living))).cost == pytest.approx((hours + 20 + 4, 11.5 + 10 + 2))


def test_costs_are_counted_once_and_failures_say_why(living: Path) -> None:
    status = read_status(Workspace.open(str(living)))
    assert status.cost == (6.0 + 2.0 + 20.0 + 4.0, 3.0 + 1.0 + 10.0 + 2.0)
    assert status.failures == [
        ("run-s1", "RuntimeError: CUDA out of memory"),
        (f"{SWEEP} objective.eta_c=8 seed=1", "RuntimeError: no luck"),
    ]
    assert dict(status.count("run")) == {"running": 1, "failed": 1, "finished": 1, "killed": 1}
    assert status.spooled == 0  # it was never sent from here: who knows
    (living / "mlflow").mkdir()
    (living / "mlflow" / "shipped-embedded.json").write_text("{}")
    assert read_status(Workspace.open(str(living))).spooled == 5


def test_what_a_running_sweep_starts_again_is_no_failure(living: Path) -> None:
    ledger = Ledger(Folder.open(living / "sweeps" / SWEEP))
    for number, kind in enumerate((FailureKind.NODE_LOST, FailureKind.NO_RESOURCES)):
        ledger.fail({"objective.eta_c": 2, "seed": number}, "gone", kind=kind)
    failures = {name for name, _ in read_status(Workspace.open(str(living))).failures}
    assert failures == {"run-s1", f"{SWEEP} objective.eta_c=8 seed=1"}
    Journal(living / "sweeps" / SWEEP / "journal.jsonl").end("failed")
    failures = {name for name, _ in read_status(Workspace.open(str(living))).failures}
    assert failures == {"run-s1", *(f"{SWEEP} objective.eta_c={v} seed={s}" for v, s in ((8, 1), (2, 0), (2, 1)))}


def test_a_refresh_reads_what_has_changed(living: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, cache, read_bytes = list[str](), JournalCache(), Folder.read_bytes

    def read(folder: Folder, name: str) -> bytes:
        if name == "journal.jsonl":
            asked.append(folder.name)
        return read_bytes(folder, name)

    monkeypatch.setattr(Folder, "read_bytes", read)
    workspace = Workspace.open(str(living))
    before = read_status(workspace, cache=cache)
    assert sorted(asked) == sorted(["run-s0", "run-s1", "alone-s0", "stopped-s0", SWEEP])
    asked.clear()
    again = read_status(workspace, cache=cache)
    assert asked == []
    assert [replace(line, age=0.0, remaining=None) for line in again.rows] == [
        replace(line, age=0.0, remaining=None) for line in before.rows
    ]
    write_run(living, "run-s0", epochs=4, parent=SWEEP)
    shutil.rmtree(living / "runs" / "stopped-s0")
    found = {line.name: line for line in read_status(workspace, cache=cache).rows}
    assert (asked, found["run-s0"].done, "stopped-s0" in found) == (["run-s0"], 4, False)
    assert len(cache) == 4


def test_who_gives_no_sign_is_called_silent(living: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    monkeypatch.setattr("vse.status.overview.time.time", lambda: now + 3600)
    found = lines(living)
    assert {found[name].state for name in ("run-s0", SWEEP)} == {"silent"}
    assert found["run-s0"].left is None
    assert found["alone-s0"].state == "finished"


def test_a_sweep_whose_trainings_report_is_not_silent(living: Path) -> None:
    """A trial of hours ends, and is told of by the sweep, once in hours; its epochs come meanwhile."""
    folder = living / "sweeps" / SWEEP
    then = time.time() - 7200
    book = folder / "journal.jsonl"
    book.write_text(re.sub(r'"(time|began)": \d+', rf'"\1": {round(1000 * then)}', book.read_text()))
    standing = json.loads((folder / "progress.json").read_text())
    (folder / "progress.json").write_text(json.dumps({**standing, "time": then, "started": then - 600}))
    assert (lines(living)[SWEEP].state, lines(living)[SWEEP].age < 60) == ("running", True)
    write_run(living, "run-s0", parent=SWEEP).end("finished")
    assert lines(living)[SWEEP].state == "silent"


def test_a_training_that_asha_ended_says_so(living: Path) -> None:
    """By its journal alone it was killed."""
    write_run(living, "vsepp-early", parent=SWEEP).end("killed")
    assert (lines(living)["vsepp-early"].state, lines(living)["vsepp-early"].note) == ("killed", "")
    ledger = Ledger(Folder.open(living / "sweeps" / SWEEP))
    ledger.finish({"optim.lr": 0.1, "seed": 0}, {"run": "vsepp-early", "stopped": True}, 5.0)
    assert lines(living)["vsepp-early"].note == "asha ended it early"


def test_what_else_lies_among_the_sweeps_is_left_out(living: Path) -> None:
    before = set(lines(living))
    (living / "sweeps" / ".DS_Store").write_bytes(b"x")
    (living / "sweeps" / "notes.txt").write_text("mine")
    (living / "sweeps" / "empty").mkdir()
    shutil.copytree(living / "sweeps" / SWEEP, living / "sweeps" / f"{SWEEP} (before)")
    assert set(lines(living)) == before | {f"{SWEEP} (before)"}


def test_features_on_their_way(living: Path) -> None:
    import numpy as np

    from vse.features.shards import write_shard

    folder = Folder.open(living / "features" / "scenes-0123" / "4567")
    write_shard(folder, ["a", "b"], {"pooled": np.zeros((2, 3), np.float16)}, [("c", "file is empty")])
    rejected = "1 rejected, for one 'c': file is empty"
    with folder.locked():
        line = lines(living)["features/scenes-0123/4567"]
        assert (line.kind, line.state, line.done, line.note) == ("stage", "running", 2, rejected)
        then = time.time() - 3600
        for file in (folder.local(), *folder.local().iterdir()):
            os.utime(file, (then, then))
        line = lines(living)["features/scenes-0123/4567"]
        assert (line.state, round(line.age, -2)) == ("silent", 3600)
    line = lines(living)["features/scenes-0123/4567"]
    assert (line.state, round(line.age, -2)) == ("stopped", 3600)
    assert line.note == f"{rejected}; no job works on it; the next one that needs it continues from here"
    assert "stages: 1 stopped" in summary(read_status(Workspace.open(str(living))))
    folder.commit_manifest([])
    assert "features/scenes-0123/4567" not in lines(living)


def test_features_that_were_all_rejected_are_nothing_to_go_on_from(living: Path) -> None:
    import numpy as np

    from vse.features.shards import write_shard

    folder = Folder.open(living / "features" / "scenes-0123" / "4567")
    write_shard(folder, [], {}, [(f"x{k}", "pooled: not finite in half precision") for k in range(16)])
    line = lines(living)["features/scenes-0123/4567"]
    assert (line.state, line.done) == ("stopped", 0)
    assert line.note == (
        "16 rejected, for one 'x0': pooled: not finite in half precision; nothing of it was usable and no job works "
        "on it; the next one that needs it starts over"
    )
    write_shard(folder, ["x0"], {"pooled": np.zeros((1, 3), np.float16)})  # mended since
    assert lines(living)["features/scenes-0123/4567"].note.startswith("15 rejected, for one 'x1': ")


def test_sentence_vectors_are_stages_by_part(living: Path) -> None:
    """As jWAE's: the folder above them never has a manifest of its own."""
    above, name = Folder.open(living / "language" / "scenes-0123" / "4567"), "language/scenes-0123/4567"
    fit, captions = above.child("fit"), above.child("captions-89ab")
    with fit.locked():
        fit.write_text("words.json", "[]")
        assert lines(living)[f"{name}/fit"].state == "running"
    fit.commit_manifest(["words.json"])
    assert not [told for told in lines(living) if told.startswith(name)]
    with captions.locked():
        captions.write_bytes("vectors-00000.npy", b"some")
        line = lines(living)[f"{name}/captions-89ab"]
        assert (line.state, line.done, line.unit) == ("running", 1, "files")
    assert lines(living)[f"{name}/captions-89ab"].state == "stopped"
    captions.commit_manifest(["vectors-00000.npy"])
    assert not [told for told in lines(living) if told.startswith(name)]


@pytest.mark.parametrize("kind", ["features", "language"])
def test_a_stage_that_was_refused_before_it_made_anything_is_not_told(living: Path, kind: str) -> None:
    folder = Folder.open(living / kind / "scenes-0123" / "89ab")
    with folder.locked():
        assert lines(living)[f"{kind}/scenes-0123/89ab"].state == "running"
    assert f"{kind}/scenes-0123/89ab" not in lines(living)


def test_parsing_on_its_way(living: Path) -> None:
    folder = Folder.open(living / "language" / "scenes-0123" / "cdef")
    with folder.locked():
        folder.write_bytes("parses-cdef-01.parquet", b"some")
        line = lines(living)["language/scenes-0123/cdef"]
        assert (line.kind, line.state, line.done, line.unit, line.note) == ("stage", "running", 1, "files", "")
    assert lines(living)["language/scenes-0123/cdef"].state == "stopped"
    folder.commit_manifest(["parses-cdef-01.parquet"])
    assert "language/scenes-0123/cdef" not in lines(living)


def test_damaged_and_empty_workspaces(living: Path, place: Path, tmp_path: Path) -> None:
    (living / "runs" / "run-s0" / "journal.jsonl").write_bytes(b"\x00garbage\n{torn")
    (living / "sweeps" / SWEEP / "progress.json").write_text("{torn")
    (living / "sweeps" / SWEEP / "ledger.jsonl").write_text("garbage\n")
    assert lines(living)[SWEEP].done == 0
    (tmp_path / "empty").mkdir()
    assert read_status(Workspace.open(str(tmp_path / "empty"))).rows == []
    with pytest.raises(InputError, match="no such workspace"):
        read_status(Workspace.open(str(tmp_path / "absent")))


@pytest.mark.parametrize("damage", [b"", b"\0" * 300 + b"\n", b"[1, 2]\n"])
def test_a_damaged_journal_has_a_name_a_note_and_the_age_of_its_file(living: Path, damage: bytes) -> None:
    then = time.time() - 7200
    for folder in (living / "runs" / "run-s0", living / "sweeps" / SWEEP):
        (folder / "journal.jsonl").write_bytes(damage)
        os.utime(folder / "journal.jsonl", (then, then))
    (living / "sweeps" / SWEEP / "progress.json").unlink()
    found = lines(living)
    assert found["run-s0"].note == "journal.jsonl is damaged: it has no start"
    assert {found[name].state for name in ("run-s0", SWEEP)} == {"silent"}
    assert [found[name].age for name in ("run-s0", SWEEP)] == pytest.approx([7200, 7200], abs=60)
    assert "" not in found


def test_a_journal_without_its_first_record_keeps_the_others(living: Path) -> None:
    book = living / "runs" / "run-s1" / "journal.jsonl"
    book.write_bytes(b"\0" + book.read_bytes()[1:])
    line = lines(living)["run-s1"]
    assert (line.state, line.done, line.score) == ("failed", 1, 99.0)
    assert line.note == "RuntimeError: CUDA out of memory; journal.jsonl is damaged: it has no start"


def test_a_sweep_without_a_journal_is_as_old_as_its_files(living: Path) -> None:
    folder = living / "sweeps" / SWEEP
    for name in ("journal.jsonl", "progress.json"):
        (folder / name).unlink()
    assert lines(living)[SWEEP].age < 60


def test_reading_writes_nothing(living: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in living.rglob("*")}
    read_status(Workspace.open(str(living)))
    assert {path: path.stat().st_mtime_ns for path in living.rglob("*")} == before


def plain(text: str) -> list[str]:
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).rstrip().splitlines()


@pytest.mark.parametrize("width", [60, 90, 120, 200])
def test_a_terminal_gets_one_screen(living: Path, width: int) -> None:
    for number in range(300):
        write_run(living, f"many-s{number}", epochs=1).end("finished")
    status = read_status(Workspace.open(str(living)))
    screen = plain(render(status, terminal=True, size=(width, 24)))
    assert len(screen) <= 23  # and a line for the summary
    assert max(map(len, screen)) <= width
    assert screen[1].split()[:2] == ["running", SWEEP]
    assert screen[2].split()[:2] == ["running", "run-s0"]
    assert any(line.startswith("failed run-s1: RuntimeError") for line in screen)
    assert re.search(r"and 2\d\d more", "\n".join(screen))


def test_a_pipe_gets_plain_lines_with_every_number_named(living: Path) -> None:
    status = read_status(Workspace.open(str(living)))
    text = render(status, terminal=False)
    assert "\x1b" not in text
    assert f"running sweep {SWEEP}: 6/40 train trials, " in text
    assert (
        "running run run-s0: 3/10 epochs, 7:14 left, 500 captions/s, best rsum 99.0, 6 CPU-hours, 3 GPU-hours" in text
    )
    assert "failed run-s1: RuntimeError: CUDA out of memory" in text
    assert summary(status).startswith(f"{living}: sweeps: 1 running; runs: 1 running, 1 failed, 1 killed, 1 finished; ")
    assert summary(status).endswith("32 CPU-hours and 16 GPU-hours")
    assert summary(replace(status, spooled=5)).endswith("32 CPU-hours and 16 GPU-hours; 5 runs wait for MLflow")


def test_the_preset_of_a_run_is_told_where_it_is_known(living: Path) -> None:
    Journal(living / "runs" / "alone-s0" / "journal.jsonl").tags({"preset": "vsepp_small +2 keys"})
    status = read_status(Workspace.open(str(living)))
    assert lines(living)["alone-s0"].preset == "vsepp_small +2 keys"
    text = render(status, terminal=False)
    assert "finished run alone-s0 (vsepp_small +2 keys): 10/10 epochs" in text
    assert "running run run-s0: 3/10 epochs" in text
    wide, narrow = (plain(render(status, terminal=True, size=(width, 24))) for width in (200, 60))
    assert wide[0].split()[:3] == ["state", "what", "preset"]
    assert any("alone-s0" in line and "vsepp_small +2 keys" in line for line in wide)
    assert "preset" not in narrow[0]
    (other,) = (line for line in status.rows if line.name == "run-s0")
    assert "preset" not in plain(render(Status("w", [other]), terminal=True, size=(200, 24)))[0]
    long = StatusRow(kind="run", name="x", state="running", preset="a/very/long/way/to/the/best.json/of/a/sweep.json")
    screen = plain(render(Status("w", [long]), terminal=True, size=(120, 24)))
    assert max(map(len, screen)) <= 120
    assert "a/very/long/way" in screen[1]


def test_markup_in_names_is_shown_as_it_is() -> None:
    line = StatusRow(kind="run", name="[red]x[/]", state="running", note="[bold]")
    screen = plain(render(Status("w", [line], [("[a]", "[b]")]), terminal=True, size=(120, 10)))
    assert "[red]x[/]" in screen[1]
    assert "failed [a]: [b]" in screen


def test_what_is_urgent_comes_first() -> None:
    made = [StatusRow(kind="run", name=s, state=s) for s in ("finished", "failed", "killed", "silent", "running")]
    shown, hidden = chosen(made, 3)
    assert [line.name for line in shown] == ["running", "silent", "failed"]
    assert hidden == 2


def test_times_and_speeds() -> None:
    assert [clock(s) for s in (0, 59.6, 3599, 3600, 200_000)] == ["0:00", "1:00", "59:59", "1:00:00", "2 days"]
    speeds = [(0.05, "20 epochs/s"), (1.5, "1.5 s/epoch"), (250, "4:10 min/epoch"), (9000, "2.5 h/epoch"), (None, "")]
    for each, text in speeds:
        assert speed(StatusRow(kind="run", name="x", state="running", unit="epochs", pace=each)) == text
