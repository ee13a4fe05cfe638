"""A run knows its code: what other code trained is used, said, and written down."""

from typing import Any

import pytest

from tests.unit.stages.test_train import CASES, Killed, _kill, _raise_at, config, same, weights
from vse.stages import train as run
from vse.stages import train as worker
from vse.stages.train import run_training
from vse.training import code, loop
from vse.training.code import this_code
from vse.training.loop import Loop

pytestmark = pytest.mark.seconds

OTHER = {"digest": "0ther000", "commit": "0123456789abcdef", "changed": True}
assert CASES


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    lines: list[str] = []
    monkeypatch.setattr(run.log, "warning", lambda text, *values: lines.append(text % values))
    return lines


def _as_other_code(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(loop, "this_code", lambda config: OTHER)
    patch.setattr(code, "digest_of", lambda sources, components: OTHER["digest"])


def test_a_run_keeps_the_code_that_trained_it(workspace: Any, said: list[str]) -> None:
    result = run_training(config(), workspace)
    assert result.trained_by == [this_code(config())]
    assert result.folder.read_json("result.json")["trained_by"] == [this_code(config())]
    assert result.checkpoint.read_json("progress.json")["trained_by"] == [this_code(config())]
    assert run_training(config(), workspace).trained_by == [this_code(config())]
    assert said == []


def test_a_run_of_other_code_is_used_and_said(workspace: Any, said: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        _as_other_code(patch)
        theirs = run_training(config(), workspace)
        run_training(config(), workspace)
    assert said == []
    mine = run_training(config(), workspace)
    assert (mine.trained, mine.trained_by) == (False, [OTHER])
    same(mine, theirs)
    line = f"was trained with other code (commit 01234567 with changes); to train it again, remove {mine.folder}"
    assert said == [f"warning: {mine.run} {line}"]


def test_a_run_that_other_code_began_goes_on_and_names_both(
    workspace: Any, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        _as_other_code(patch)
        folder = _kill(config(), workspace, monkeypatch, "report")
    done = run_training(config(), workspace)
    assert said == [
        f"warning: {done.run} was started with other code (commit 01234567 with changes) and continues with this; "
        f"to train it again, remove {folder}"
    ]
    assert done.trained_by == [OTHER, this_code(config())]
    assert run_training(config(), workspace).trained_by == [OTHER, this_code(config())]
    assert len(said) == 2  # it is a run of other code, in part
    assert weights(done)


def test_code_that_trains_no_epoch_is_not_named(workspace: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run killed between its last epoch and its result."""
    with monkeypatch.context() as patch:
        _raise_at(patch, worker, "_finish", 1)
        with pytest.raises(Killed):
            run_training(config(), workspace)
    monkeypatch.setattr(Loop, "_epoch", lambda *a: pytest.fail("trained on"))
    _as_other_code(monkeypatch)
    assert [each["digest"] for each in run_training(config(), workspace).trained_by] != [OTHER["digest"]]
