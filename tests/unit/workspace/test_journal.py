"""The journal survives crashes, full disks and repetition, and keeps credentials out."""

import errno
import json
import logging
import math
import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vse.errors import StorageError
from vse.storage.folder import Folder
from vse.workspace import journal
from vse.workspace.journal import Journal, parse, read
from vse.workspace.redaction import HIDDEN, redact, redact_text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs" / "r-0123abcd" / journal.FILE_NAME


def test_what_is_written_is_read(path: Path) -> None:
    book = Journal(path)
    book.start("0123abcd", name="univse seed 0", experiment="alpha", parent="ffff0000", tags={"seed": 0})
    book.params({"optim.lr": 2e-4, "splits": ["a", "b"], "family": "univse", "none": None})
    book.metrics({"train/loss": 3.5, "val/rsum": np.float32(120.5)}, step=1)
    book.metrics({"train/loss": torch.tensor(2.5)}, step=2)
    (path.parent / "evaluation").mkdir()
    book.artifact(path.parent / "evaluation" / "table.json", under="tables")
    book.artifact("/elsewhere/alpha.png")
    book.files(["page.html", "figures/alpha.svg"])
    book.end()
    story = read(path)
    assert (story.run, story.name, story.experiment, story.parent) == ("0123abcd", "univse seed 0", "alpha", "ffff0000")
    assert story.status == "finished"
    assert story.started <= story.ended
    assert story.params == {"optim.lr": 2e-4, "splits": '["a", "b"]', "family": "univse", "none": None}
    assert story.tags == {"seed": "0"}
    assert {k: v for k, (v, _) in story.metrics.items()} == {
        ("train/loss", 1): 3.5,
        ("val/rsum", 1): 120.5,
        ("train/loss", 2): 2.5,
    }
    assert story.latest() == {"train/loss": 2.5, "val/rsum": 120.5}
    assert set(story.artifacts) == {
        ("evaluation/table.json", "tables"),
        ("/elsewhere/alpha.png", ""),
        ("page.html", ""),
        ("figures/alpha.svg", ""),
    }


def test_the_last_offer_of_a_model_counts(path: Path) -> None:
    book = Journal(path)
    book.start("0123abcd")
    for digest in ("00000000", "11111111"):
        book.model("univse", alias="selected", path=f"served/{digest}", digest=digest, tags={"alpha": 0.5})
    book.model("univse", alias="other", path="served/00000000", digest="00000000")
    models = read(path).models
    assert {key: (model["path"], model["tags"]) for key, model in models.items()} == {
        ("univse", "selected"): ("served/11111111", {"alpha": "0.5"}),
        ("univse", "other"): ("served/00000000", {}),
    }
    assert models["univse", "selected"]["offered"] > 0


def test_a_repeated_epoch_counts_once_and_keeps_its_first_time(path: Path) -> None:
    book = Journal(path)
    book.start("a")
    book.metrics({"loss": 2.0}, step=1)
    first = read(path).metrics["loss", 1]
    book.end("killed")
    resumed = Journal(path)
    resumed.start("a")
    resumed.metrics({"loss": 2.0}, step=1)
    resumed.metrics({"loss": 1.0}, step=2)
    story = read(path)
    assert story.metrics["loss", 1] == first
    assert len(story.metrics) == 2
    assert (story.status, story.ended) == ("running", 0)


def test_another_value_of_a_step_has_a_later_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Trackers show the later one of two; clocks may be set back."""
    book, clock = Journal(path), iter([1000, 1000, 900, 5000])
    monkeypatch.setattr(journal.time, "time_ns", lambda: next(clock) * 1_000_000)
    told = []
    for value in (380.0, 402.0, 410.0, 410.0):
        book.metrics({"objective": value}, step=0)
        told.append(read(path).metrics["objective", 0])
    assert told == [(380.0, 1000), (402.0, 1001), (410.0, 1002), (410.0, 1002)]


@given(cut=st.integers(min_value=0, max_value=400))
def test_any_torn_end_costs_only_the_torn_record(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    file = tmp_path_factory.mktemp("torn") / "journal.jsonl"
    book = Journal(file)
    book.start("a")
    for step in range(4):
        book.metrics({"loss": float(step)}, step=step)
    data = file.read_bytes()
    whole = len(data[: min(cut, len(data))].splitlines(keepends=True))
    kept = data[:cut]
    file.write_bytes(kept)
    before = set(read(file).metrics)
    assert len(before) >= kept.count(b"\n") - 1
    assert len(before) <= whole
    Journal(file).metrics({"after": 1.0}, step=9)
    assert set(read(file).metrics) == before | {("after", 9)}


def test_garbage_and_unknown_records_are_passed_over() -> None:
    lines = [
        b"\x00\xff",
        b"[]",
        b"3",
        b'{"kind":"metrics","time":1}',
        b'{"kind":"future","time":1}',
        b'{"kind":"note"}',
    ]
    assert parse(b"\n".join(lines)) == journal.JournalState()
    assert read("/no/such/journal") == journal.JournalState()


def test_a_later_text_of_a_section_replaces_an_earlier_one(path: Path) -> None:
    book = Journal(path)
    book.start("run-1")
    book.describe("asked", "why")
    book.describe("result", "two")
    book.describe("result", "three\nlines")
    assert read(path).texts == {"asked": "why", "result": "three\nlines"}


def test_nan_and_infinity_become_notes(path: Path) -> None:
    book = Journal(path)
    book.metrics({"loss": math.nan, "norm": math.inf, "fine": 1.0, "text": "high"}, step=3)
    book.metrics({"loss": math.nan}, step=3)
    story = read(path)
    assert set(story.metrics) == {("fine", 3)}
    assert story.notes == [
        "loss at step 3 is nan",
        "norm at step 3 is inf",
        "text at step 3 is not a number: ValueError",
    ]
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_a_full_disk_is_one_warning_and_later_records_are_tried(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    book = Journal(path)
    book.metrics({"loss": 1.0}, step=1)
    real = os.write

    def full(descriptor: int, data: bytes) -> int:
        real(descriptor, data[:7])  # a full disk takes a part
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(os, "write", full)
        book.metrics({"loss": 2.0}, step=2)
        book.metrics({"loss": 3.0}, step=3)
        book.end()
    assert len(caplog.records) == 1
    assert "No space left" in caplog.text
    book.metrics({"loss": 4.0}, step=4)
    assert set(read(path).metrics) == {("loss", 1), ("loss", 4)}


def test_a_journal_that_cannot_be_made_never_raises(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("in the way")
    book = Journal(tmp_path / "file" / "journal.jsonl")
    with caplog.at_level(logging.WARNING):
        book.start("a")
        book.metrics({"loss": 1.0})
        book.artifact("x")
    assert len(caplog.records) == 1


PLANTED = {
    "storage.secret_access_key": "wJalrXUtnFEMIKtestKEYbPxRfiCYEXAMPLEKEY",
    "tracking.uri": "postgresql://vse:correct-horse@db.internal/mlflow",
    "headers": {"Authorization": "Bearer abcdefghijklmnop1234"},
    "apiKey": "0123456789",
    "hub_token": "hf_abcdefghijklmnopqrstuvwx",
    "notes": ["AKIAIOSFODNN7EXAMPLE", "see ?X-Amz-Signature=deadbeefcafe00&x=1", "--password=opensesame1"],
    "pem": "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----",
    "web": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dozjgNryP4J3jVmNHl0w5N",
}
SECRETS = [
    "wJalr",
    "correct-horse",
    "abcdefghijklmnop",
    "0123456789",
    "AKIAIOSF",
    "deadbeef",
    "opensesame",
    "MIIEow",
    "dozjg",
]
HARMLESS = {
    "text.token_dim": 300,
    "num_tokens": 12,
    "text.pool_token": "cls",
    "keyword": "a man with a secret smile",
    "features.key": "resnet152/pooled",
    "uri": "s3://bucket/prefix?region=eu-west-1",
    "tracking": "http://10.0.0.4:5000",
    "caption": "the password is written on a basic white sign",
    "fingerprint": "0123abcd",
    "lr": 2e-4,
    "flag": True,
}


def test_planted_credentials_are_hidden(path: Path) -> None:
    book = Journal(path)
    book.start("a", tags={"hub_token": PLANTED["hub_token"], "url": PLANTED["tracking.uri"]})
    book.params(PLANTED)
    book.note(f"cannot reach {PLANTED['tracking.uri']}")
    told = path.read_text()
    for secret in SECRETS:
        assert secret not in told
    assert told.count(HIDDEN) >= len(SECRETS)
    assert "postgresql://vse:[hidden]@db.internal/mlflow" in told


def test_words_of_the_trade_are_not_credentials() -> None:
    assert redact(HARMLESS) == HARMLESS


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=60))
def test_hiding_twice_is_hiding_once(text: str) -> None:
    assert redact_text(redact_text(text)) == redact_text(text)


class Remote(Folder):
    """A folder that is not local, as far as journals know."""

    @property
    def is_local(self) -> bool:
        return False

    def read_bytes(self, name: str) -> bytes:
        return (Path(self.uri) / name).read_bytes()

    def write_bytes(self, name: str, data: bytes) -> None:
        (Path(self.uri) / name).parent.mkdir(exist_ok=True)
        (Path(self.uri) / name).write_bytes(data)


def test_a_journal_in_a_store_that_cannot_append(tmp_path: Path) -> None:
    remote = Remote(str(tmp_path))
    book = journal.open_in(remote, tmp_path / "scratch1")
    book.start("a")
    book.metrics({"loss": 2.0}, step=1)
    again = journal.open_in(remote, tmp_path / "scratch2")  # another machine goes on
    again.metrics({"loss": 1.0}, step=2)
    again.end()
    story = journal.read(tmp_path / journal.FILE_NAME)
    assert (set(story.metrics), story.status) == ({("loss", 1), ("loss", 2)}, "finished")
    back = journal.open_in(remote, tmp_path / "scratch1")  # the first machine again
    assert set(journal.read(back.path).metrics) == {("loss", 1), ("loss", 2)}


def test_every_record_is_copied(path: Path) -> None:
    """A job that describes a run, or a sweep that has begun, writes no later record that would take these along."""
    copies: list[bytes] = []
    book = Journal(path, mirror=copies.append)
    for write in (
        partial(book.start, "r", tags={"a": "b"}),
        partial(book.params, {"a": 1}),
        partial(book.metrics, {"a": 1.0}),
        partial(book.artifact, path.parent / "picture.png"),
        partial(book.describe, "headline", "text"),
        partial(book.note, "text"),
        partial(book.end),
    ):
        write()
        assert copies[-1] == path.read_bytes()


def test_what_is_told_together_is_copied_once(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    copies: list[bytes] = []
    book = Journal(path, mirror=copies.append)
    with book.together():
        book.start("r")
        with book.together():
            book.metrics({"loss": 1.0}, step=1)
        book.end("finished")
    assert copies == [path.read_bytes()]
    book.start("r")
    assert len(copies) == 2

    def away(data: bytes) -> None:
        raise StorageError("s3://here: does not answer")

    book = Journal(path, mirror=away)
    with book.together():
        book.end("killed")
    assert read(path).status == "killed"
    assert [record.getMessage() for record in caplog.records] == [
        f"{path}: cannot write a copy (s3://here: does not answer); the run continues without it"
    ]


def test_journals_of_two_stores_share_nothing_on_this_machine(tmp_path: Path) -> None:
    for name in ("one", "two"):
        book = journal.open_in(Remote(str(tmp_path / name)), tmp_path / "scratch")
        book.start(name)
        book.end()
    assert journal.read(tmp_path / "two" / journal.FILE_NAME).run == "two"
    assert b"one" not in (tmp_path / "two" / journal.FILE_NAME).read_bytes()


def test_a_store_that_was_emptied_has_no_journal_any_more(tmp_path: Path) -> None:
    remote = Remote(str(tmp_path / "store"))
    book = journal.open_in(remote, tmp_path / "scratch")
    book.start("a")
    book.end()
    (tmp_path / "store" / journal.FILE_NAME).unlink()
    assert journal.read(journal.open_in(remote, tmp_path / "scratch").path).run == ""


def test_what_a_store_did_not_take_yet_is_not_lost(tmp_path: Path) -> None:
    class Away(Remote):
        def write_bytes(self, name: str, data: bytes) -> None:
            raise StorageError("no answer")

    store = str(tmp_path / "store")
    journal.open_in(Away(store), tmp_path / "scratch").start("a")
    book = journal.open_in(Remote(store), tmp_path / "scratch")
    book.end()
    assert journal.read(tmp_path / "store" / journal.FILE_NAME).run == "a"
