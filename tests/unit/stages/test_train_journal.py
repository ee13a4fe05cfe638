"""What a run tells of itself: what made it, what it cost, why it failed."""

import pytest

from tests.unit.stages.test_train import _history as history
from tests.unit.stages.test_train import _story as story_of
from tests.unit.stages.test_train import config
from vse.stages.train import run_training
from vse.training import run_journal
from vse.training.loop import Loop

pytestmark = pytest.mark.seconds


def test_a_run_tells_what_made_it_and_what_it_costs(workspace, monkeypatch):
    from vse.workspace import provenance as environment

    monkeypatch.setattr(environment, "git_state", lambda: {"commit": "0123abcd", "changed_files": 2})
    wanted = config(train__threads=2)
    result = run_training(wanted, workspace)
    story = story_of(result.folder)
    assert {"fingerprint.records", "fingerprint.features", "version.torch", "host", "hardware.cores"} <= set(story.tags)
    assert (story.tags["kind"], story.tags["git.commit"], story.tags["git.dirty"]) == ("training", "0123abcd", "true")
    spent = {step: value for (key, step), (value, _) in story.metrics.items() if key == "cost/seconds"}
    assert sorted(spent) == [1, 2, 3]
    assert 0 < spent[1] <= spent[2] <= spent[3] == result.seconds
    latest = story.latest()
    assert latest["cost/cpu_hours"] == pytest.approx(2 * result.seconds / 3600)
    assert latest["cost/gpu_hours"] == 0
    known = {"seconds": 3600.0, "cpu_seconds": 7200.0, "gpu_seconds": 900.0}
    assert run_journal.cost(known) == {"cost/seconds": 3600, "cost/cpu_hours": 2, "cost/gpu_hours": 0.25}
    assert latest["val/rsum"] == history(result)[-1]["val/rsum"]  # the last, beside the best
    assert latest["best/val/rsum"] == result.metrics["val/rsum"]
    assert not [name for name in latest if name.startswith("best/train")]  # a chart of one point each


def test_a_failed_run_says_why(workspace, monkeypatch):
    def fail(self, progress):
        raise RuntimeError("the first reason\nand what led to it")

    monkeypatch.setattr(Loop, "_epoch", fail)
    with pytest.raises(RuntimeError):
        run_training(config(seed=9), workspace)
    (name,) = workspace.root.child("runs").names()
    story = story_of(workspace.run(name))
    assert (story.status, story.notes) == ("failed", ["RuntimeError: the first reason"])


def test_an_epoch_that_the_journal_lost_is_told_again_whole(workspace):
    """A kill may come between the checkpoint of an epoch and its record."""
    result = run_training(config(seed=5), workspace)
    path = result.folder.local("journal.jsonl")
    whole, lines = story_of(result.folder), path.read_bytes().splitlines(keepends=True)
    second = [line for line in lines if b'"kind": "metrics", ' in line and b'"step": 2' in line and b"train/" in line]
    assert len(second) == 1
    path.write_bytes(b"".join(line for line in lines if line not in second and b'"kind": "end"' not in line))
    assert {key for key, step in story_of(result.folder).metrics if step == 2} < {k for k, s in whole.metrics if s == 2}
    assert run_training(config(seed=5), workspace).trained is False
    again = {key: value for key, (value, _) in story_of(result.folder).metrics.items()}
    assert again == {key: value for key, (value, _) in whole.metrics.items()}
    assert ("speed/captions_per_second", 2) in again


def test_a_run_whose_process_was_killed_is_ended_once(workspace):
    result = run_training(config(), workspace)
    path = result.folder.local("journal.jsonl")
    whole = path.read_bytes()
    run_journal.close_killed(workspace, result.run)
    run_journal.close_killed(workspace, "no-such-run")
    assert path.read_bytes() == whole
    *lines, end = whole.splitlines(keepends=True)
    assert b'"kind": "end"' in end
    path.write_bytes(b"".join(lines))
    with result.folder.locked():  # another process trains it
        run_journal.close_killed(workspace, result.run, wait=0.2)
    assert story_of(result.folder).status == "running"
    for _ in range(2):
        run_journal.close_killed(workspace, result.run)
    assert story_of(result.folder).status == "killed"
    assert path.read_bytes().count(b'"kind": "end"') == 1
