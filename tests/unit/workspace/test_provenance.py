"""What is written down of versions, sources and machine."""

import json
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import jsonschema
import pytest

import vse
from vse.config import knob
from vse.storage.folder import Folder
from vse.training.code import read_code
from vse.workspace import provenance as environment
from vse.workspace.provenance import SCHEMA, SCHEMA_VERSION, git_state, run_tags, versions, write_summary


def test_tags_name_versions_sources_and_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "git_state", lambda: {"commit": "0123abcd", "changed_files": 0})
    machine = {"processor": "a chip", "cores": 6, "memory_gib": 15.5, "gpus": ["H100", "H100", "A10G"]}
    monkeypatch.setattr(environment, "hardware", lambda: machine)
    tags = run_tags()
    assert tags["git.commit"] == "0123abcd"
    assert tags["git.dirty"] == "false"
    assert tags["hardware.gpus"] == "2 x H100, 1 x A10G"
    assert (tags["hardware.cores"], tags["hardware.processor"]) == ("6", "a chip")
    assert tags["version.vse"] == vse.__version__
    assert tags["host"]
    assert all(isinstance(value, str) for value in tags.values())


def test_code_is_told_from_other_code_of_the_same_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a cluster, some nodes of which may have the package as it was before the last `ray up`."""
    here = versions()
    shutil.copytree(Path(vse.__file__).parent, tmp_path / "vse", ignore=shutil.ignore_patterns("*.pyc"))
    monkeypatch.setattr(environment, "__file__", str(tmp_path / "vse" / "workspace" / "provenance.py"))
    monkeypatch.setattr(environment, "code_digits", environment.code_digits.__wrapped__)
    assert versions() == here
    with (tmp_path / "vse" / "display" / "progress.py").open("a") as file:
        file.write("# edited\n")
    assert versions() == {**here, "code": versions()["code"]} != here
    assert run_tags()["version.code"] == versions()["code"]


def test_code_is_that_with_which_a_training_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages may take hours before its run is tagged, and sources may change meanwhile."""
    began = versions()["code"]
    shutil.copytree(Path(vse.__file__).parent, tmp_path / "vse", ignore=shutil.ignore_patterns("*.pyc"))
    monkeypatch.setattr(environment, "__file__", str(tmp_path / "vse" / "workspace" / "provenance.py"))
    environment.code_digits.cache_clear()
    try:
        read_code.__wrapped__()
        (tmp_path / "vse" / "display" / "progress.py").unlink()
        assert run_tags()["version.code"] == began
    finally:
        environment.code_digits.cache_clear()


def test_outside_a_repository_nothing_is_said_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "git_state", dict)
    monkeypatch.setattr(environment, "gpus", list)
    environment.hardware.cache_clear()
    tags = run_tags()
    assert not [name for name in tags if name.startswith("git")]
    assert tags["hardware.gpus"] == "none"
    environment.hardware.cache_clear()


def test_the_state_of_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "platform" / "vse" / "workspace" / "provenance.py"
    source.parent.mkdir(parents=True)
    source.write_text("one")
    monkeypatch.setattr(environment, "__file__", str(source))

    def git(*words: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        return subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    look = git_state.__wrapped__
    assert look() == {}
    git("init", "-q")
    git("add", ".")
    git("commit", "-qm", "one")
    assert look() == {"commit": git("rev-parse", "HEAD").strip(), "changed_files": 0}
    source.write_text("two")
    assert look()["changed_files"] == 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Optimiser:
    lr: float = knob(2e-4, "learning rate", above=0)


def test_summary_keeps_its_schema(tmp_path: Path) -> None:
    path = write_summary(
        Folder.open(tmp_path / "out"),
        job="demo",
        started=time.time() - 2,
        configuration=Optimiser(),
        options=Optimiser(),
        fingerprints={"dataset": "0123abcd"},
        seeds=[0, 1],
        headline={"test/rsum": 312.5, "test/medr": float("nan"), "verdict": "holds"},
        outputs={"figure": tmp_path / "alpha.png"},
        details={"server": "https://me:hunter22@host"},
    )
    assert path == str(tmp_path / "out" / "summary.json")
    data = json.loads(Path(path).read_text())
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(data, SCHEMA)
    assert data["schema"] == SCHEMA_VERSION
    assert 2 <= data["seconds"] < 10
    assert data["headline"] == {"test/rsum": 312.5, "test/medr": None, "verdict": "holds"}
    assert data["configuration"] == {"lr": 2e-4}
    assert "hunter22" not in json.dumps(data)
    for broken in ({**data, "schema": 0}, {**data, "extra": 1}, {k: v for k, v in data.items() if k != "seeds"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(broken, SCHEMA)
