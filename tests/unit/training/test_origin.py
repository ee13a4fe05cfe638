"""The preset of a run: told with it, kept beside it, and no part of what the run is."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.stages.test_train import _story as story_of
from tests.unit.stages.test_train import config
from vse.cli import command
from vse.stages import train as worker
from vse.stages.train import run_training
from vse.storage.folder import Folder
from vse.training.run_journal import FILE, Origin, keep_origin, read_origin


@pytest.mark.parametrize(
    ("beside", "text"),
    [
        ((), "vsepp_small"),
        (("seed",), "vsepp_small"),  # which stands in the run's name
        (("optim.lr",), "vsepp_small +1 key"),
        (("optim.lr", "seed", "data"), "vsepp_small +2 keys"),
    ],
)
def test_it_says_how_many_keys_were_changed(beside: tuple[str, ...], text: str) -> None:
    assert str(Origin.of("vsepp_small", beside)) == text


def test_of_a_job_without_presets_there_is_none() -> None:
    assert Origin.of(None, ()) is None


def test_the_first_one_stays(tmp_path: Any) -> None:
    folder = Folder.open(tmp_path / "run")
    assert read_origin(folder) is None
    first = Origin("vsepp_small", ("optim.lr",))
    assert keep_origin(folder, first)
    assert not keep_origin(folder, Origin("best.json"))
    assert read_origin(folder) == first
    for damaged in ("{", "[]", '{"preset": "a"}'):
        folder.write_text(FILE, damaged)
        assert read_origin(folder) is None


def test_credentials_of_an_address_are_hidden(tmp_path: Any) -> None:
    origin = Origin.of("s3://me:secret@bucket/best.json", ())
    assert origin is not None
    keep_origin(Folder.open(tmp_path), origin)
    assert "secret" not in (tmp_path / FILE).read_text()


@pytest.mark.seconds
def test_it_reaches_journal_and_folder_and_makes_no_other_run(workspace: Any) -> None:
    nameless = run_training(config(), workspace)
    assert read_origin(nameless.folder) is None
    assert "preset" not in story_of(nameless.folder).tags
    named = run_training(config(), workspace, origin=Origin("vsepp_tiny", ("model.dim",)))
    assert (named.run, named.trained) == (nameless.run, False)
    assert str(read_origin(named.folder)) == "vsepp_tiny +1 key"
    story = story_of(named.folder)
    assert (story.tags["preset"], story.status) == ("vsepp_tiny +1 key", "finished")
    other = run_training(config(), workspace, origin=Origin("best.json"))
    assert other.run == named.run
    assert story_of(other.folder).tags["preset"] == "vsepp_tiny +1 key"
    seed = run_training(config(seed=1), workspace, origin=Origin("vsepp_tiny", ("model.dim",)))
    assert seed.trained
    assert story_of(seed.folder).tags["preset"] == "vsepp_tiny +1 key"
    assert seed.folder.read_json("config.json").keys() == named.folder.read_json("config.json").keys()


@pytest.mark.seconds
def test_a_finished_run_in_a_place_that_cannot_be_written_is_found_all_the_same(
    workspace: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = run_training(config(), workspace)

    def refuse(self: Folder, name: str, data: bytes) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Folder, "write_bytes", refuse)
    assert run_training(config(), workspace, origin=Origin("vsepp_tiny")).run == done.run


@pytest.mark.seconds
def test_a_run_that_was_begun_keeps_its_name(workspace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **more: Any) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patched:
        patched.setattr(worker, "_finish", fail)
        with pytest.raises(RuntimeError):
            run_training(config(), workspace, origin=Origin("vsepp_tiny"))
    result = run_training(config(), workspace, origin=Origin("mine.json"))
    assert story_of(result.folder).tags["preset"] == str(read_origin(result.folder)) == "vsepp_tiny"


def test_asked_for_as_a_preset_it_points_to_the_configuration_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep_origin(Folder.open(tmp_path), Origin("vsepp_tiny", ("optim.lr",)))
    argv = ["--preset", str(tmp_path / "preset.json")]
    assert command.main("train", lambda request: "", description="", default_preset="vsepp_tiny", argv=argv) == 2
    told = capsys.readouterr().err
    assert told.endswith(
        "preset.json: only names the origin of a run's configuration; give the config.json in its folder\n"
    )
