"""A run whose kept checkpoint, result or journal is damaged: said, and made again with the undisturbed numbers."""

import logging
import os

import pytest

from tests.levels import slow_but
from tests.unit.stages.test_train import _epochs_in, _history, _no_times, _story, config, same, weights
from vse.errors import InputError
from vse.stages.train import run_training
from vse.stages.trained import load_run
from vse.training.run_journal import RESULT, finished, tell_lost_end
from vse.workspace.journal import FILE_NAME

pytestmark = pytest.mark.seconds


@pytest.fixture
def result(workspace):
    return run_training(config(), workspace)


def flip(folder, name):
    data = folder.read_bytes(name)
    folder.write_bytes(name, data[:-9] + bytes([data[-9] ^ 4]) + data[-8:])


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    "file", slow_but(["model.safetensors", "progress.json", "manifest.json", "config.json"], "model.safetensors")
)
def test_a_damaged_kept_checkpoint_is_named_and_trained_again(file, workspace, result, caplog):
    before, history = weights(result), _history(result)
    flip(result.checkpoint, file)
    name = f"{result.checkpoint.name}/{file}"
    with pytest.raises(InputError) as refusal:
        load_run(result.folder)
    assert f"{name} is damaged or missing; python jobs/train.py --preset {result.folder}/config.json makes" in str(
        refusal.value
    )
    again = run_training(config(), workspace)
    assert again.trained
    (line,) = warnings(caplog)
    assert line.endswith(f"{name} is damaged or missing; trained again from the beginning")
    assert (again.metrics, weights(again), _history(again)) == (result.metrics, before, history)
    assert load_run(result.folder).checkpoint == result.checkpoint
    assert not run_training(config(), workspace).trained


def test_a_checkpoint_that_is_not_kept_may_be_damaged(workspace, result):
    names = [name for name in result.folder.child("checkpoints").names() if name != result.checkpoint.name]
    for name in names:
        flip(result.folder.child("checkpoints", name), "model.safetensors")
    assert load_run(result.folder).checkpoint == result.checkpoint
    assert not run_training(config(), workspace).trained


@pytest.mark.parametrize(
    "damaged", slow_but([b"", b"<html>", b"null", b'{"history": 1, "best": 1}', b"flip"], b"", b"flip")
)
def test_a_damaged_result_is_written_again_without_training(damaged, workspace, result, monkeypatch):
    from vse.training.loop import Loop

    whole = result.folder.read_json(RESULT)
    data = result.folder.read_bytes(RESULT)
    result.folder.write_bytes(RESULT, data.replace(b'"epochs": 3', b'"epochs": 2') if damaged == b"flip" else damaged)
    monkeypatch.setattr(Loop, "_epoch", lambda *_: pytest.fail("trained"))
    same(run_training(config(), workspace), result)
    assert result.folder.read_json(RESULT)["history"] == whole["history"]


CUTS = {
    "torn": lambda data: data[:-20],
    "many lines": lambda data: b"".join(data.splitlines(keepends=True)[:5]),
    "empty": lambda data: b"",
    "zeroed tail": lambda data: data[: len(data) // 2] + bytes(len(data) - len(data) // 2),
    "html": lambda data: b"<html></html>",
}


@pytest.mark.parametrize("how", slow_but(CUTS, "torn", "empty"))
def test_a_journal_that_lost_its_end_is_told_again_from_the_result(how, workspace, result):
    path = result.folder.local(FILE_NAME)
    before = _story(result.folder)
    path.write_bytes(CUTS[how](path.read_bytes()))
    assert tell_lost_end(workspace, result.folder)
    story = _story(result.folder)
    assert (story.status, story.run) == ("finished", before.run)
    lost = before.params.keys() - story.params.keys()
    # a checkpoint's configuration leaves out later fields at their default
    assert lost <= {"data.links", "text.contrast.held_out"}
    assert story.params == {key: value for key, value in before.params.items() if key not in lost}
    assert _no_times(story) == _no_times(before)
    assert _epochs_in(result.folder) == [1, 2, 3]
    assert story.tags.items() >= {key: value for key, value in before.tags.items() if key.startswith("fing")}.items()


def test_a_number_that_was_altered_in_the_journal_is_told_again(workspace, result):
    path = result.folder.local(FILE_NAME)
    before, value = _story(result.folder), result.folder.read_json(RESULT)["history"][1]["val/rsum"]
    path.write_bytes(path.read_bytes().replace(f'"val/rsum": {value}'.encode(), b'"val/rsum": 1.0'))
    assert not run_training(config(), workspace).trained
    assert _no_times(_story(result.folder)) == _no_times(before)


def test_who_trains_now_tells_it_itself(workspace, result):
    path = result.folder.local(FILE_NAME)
    os.truncate(path, path.stat().st_size - 20)
    with result.folder.locked():
        assert not tell_lost_end(workspace, result.folder)
    result.folder.delete(RESULT)
    assert finished(result.folder) is None
    assert not tell_lost_end(workspace, result.folder)
