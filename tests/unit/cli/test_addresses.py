"""Files, the workspace and MLflow's address are looked at before a job works, and by its dry run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import s3
from tests.unit.cli.test_command import measured
from vse.cli import command
from vse.config import knob


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """Options that name files."""

    captions: tuple[str, ...] = knob((), reads="file")
    lexicon: str = knob("", reads="folder")
    out: str = knob("", writes="file")
    models: str = knob("", writes="folder")


def call(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """What is refused, with and without a dry run, in one line; empty where nothing is."""
    told = set[str]()
    for more in ([], ["--dry-run"]):
        done = list[Any]()
        status = command.main("demo", done.append, description="", options=Options(), argv=[*argv, *more])
        err = capsys.readouterr().err
        assert (status, len(err.splitlines())) == ((2, 1) if err else (0, 0)), err
        assert bool(done) == (not err and not more)
        told.add(err.removeprefix("demo: ").rstrip())
    (line,) = told
    return line


def test_files_are_looked_for_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.txt").write_text("a dog\n")
    space = ("--workspace", str(tmp_path / "w"))
    assert call(capsys, *space, f"captions={tmp_path}/a.txt", f"lexicon={tmp_path}", f"out={tmp_path}/new/b.txt") == ""
    for given, said in (
        (f"captions={tmp_path}/a.txt,{tmp_path}/b.txt", f"captions={tmp_path}/b.txt: no such file"),
        (f"captions={tmp_path}", f"captions={tmp_path}: no such file"),
        (f"lexicon={tmp_path}/a.txt", f"lexicon={tmp_path}/a.txt: no such folder"),
        ("out=s3://bucket/b.txt", "out=s3://bucket/b.txt: name a local file; it can be copied there afterwards"),
        (f"out={tmp_path}", f"out={tmp_path}: is a folder; name a file in it"),
        (f"models={tmp_path}/a.txt/x", f"models={tmp_path}/a.txt/x: {tmp_path}/a.txt is not a folder"),
    ):
        assert call(capsys, *space, given) == said


def test_an_address_of_mlflow_that_cannot_be_meant_is_refused_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    space = ("--workspace", str(tmp_path / "w"))
    assert call(capsys, *space, "--tracking", "localhost:5000").startswith("tracking=localhost:5000: expected http(s)")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///relative.db")
    assert call(capsys, *space).startswith("tracking=sqlite:///relative.db: expected http(s)")
    assert not (tmp_path / "w").exists()


@pytest.mark.process
def test_a_dry_run_asks_whether_the_workspace_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def told(address: str) -> str:
        status = command.main("demo", print, description="", argv=["--dry-run", "--workspace", address])
        err = capsys.readouterr().err
        assert status == (2 if err else 0)
        return err

    (tmp_path / "file").write_text("")
    assert f"{tmp_path}/file is not a folder" in told(f"{tmp_path}/file/w")
    assert told(f"{tmp_path}/new/w") == ""
    with s3.server() as place:
        assert told(s3.address(place, "new")) == ""
        (line,) = told(s3.address(place, "new").replace(s3.BUCKET, "no-such-bucket")).splitlines()
    assert "no-such-bucket" in line


@pytest.mark.parametrize("dry", [(), ("--dry-run",)])
def test_a_run_is_named_once(dry: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert measured(str(tmp_path), *dry, f"run=a,{tmp_path}/runs/a") == (2, None)
    assert capsys.readouterr().err == "measure: run: a is named twice\n"
