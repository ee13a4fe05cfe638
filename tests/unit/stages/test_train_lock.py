"""Two processes that want one run: one trains, the other waits and finds it finished; who is killed blocks nobody."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.stages.test_train import SHORT, _epochs_in, config, same
from vse.stages import train as run
from vse.stages.train import Result, run_training
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace

HOLDER = """
import sys, time
from pathlib import Path
from vse.config import override
from vse.presets import preset
from vse.stages.train import run_training
from vse.workspace.layout import Workspace

place, signs = sys.argv[1], Path(sys.argv[2])

def hold(numbers):
    if numbers["epoch"] == 1:
        (signs / "held").touch()
        while not (signs / "go").exists():
            time.sleep(0.02)

assert run_training(override(preset("vsepp_tiny"), eval(sys.argv[3])), Workspace.open(place), report=hold).trained
"""


@pytest.fixture
def holder(workspace: Workspace, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that trains the run and stands still after its first epoch, until there is a file `go`."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, workspace.root.uri, str(tmp_path), repr(SHORT)],
        cwd=Path(__file__).parents[3],
        env=environment,
    )
    try:
        _until(lambda: (tmp_path / "held").exists() or process.poll() is not None)
        assert process.poll() is None
        yield process
    finally:
        process.kill()
        process.wait()


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 100
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.fixture
def undisturbed(stages: Any, tmp_path: Path) -> Result:
    return run_training(config(), stages(tmp_path / "undisturbed"))


def _run(workspace: Workspace) -> Folder:
    (name,) = workspace.root.child("runs").names()
    return workspace.run(name)


@pytest.mark.process
@pytest.mark.slow
def test_the_second_waits_and_finds_the_run_finished(
    workspace: Workspace, holder: subprocess.Popen[bytes], tmp_path: Path, undisturbed: Result, monkeypatch: Any
) -> None:
    said: list[str] = []
    monkeypatch.setattr(run.log, "warning", lambda text, *values: said.append(text % values))
    monkeypatch.setattr(run, "train_worker", lambda *a: pytest.fail("trained beside the other"))
    folder, found = _run(workspace), list[Result]()
    before = folder.child("checkpoints").names()
    assert before == ("epoch-0001",)
    assert folder.is_locked()
    waiting = threading.Thread(target=lambda: found.append(run_training(config(), workspace)))
    waiting.start()
    _until(lambda: bool(said))
    waiting.join(0.5)
    assert waiting.is_alive()
    assert said == [f"{folder.name}: another process is training this run; waiting for it to finish"]
    assert folder.child("checkpoints").names() == before
    (tmp_path / "go").touch()
    waiting.join(100)
    assert not waiting.is_alive()
    assert holder.wait(100) == 0
    (result,) = found
    assert not result.trained
    same(result, undisturbed)
    assert _epochs_in(folder) == [1, 2, 3]
    assert not folder.is_locked()


@pytest.mark.process
@pytest.mark.slow
def test_a_holder_that_is_killed_leaves_the_run_to_the_next(
    workspace: Workspace, holder: subprocess.Popen[bytes], undisturbed: Result
) -> None:
    assert _run(workspace).is_locked()
    holder.kill()
    holder.wait()
    assert not _run(workspace).is_locked()
    result = run_training(config(), workspace)
    assert result.trained
    same(result, undisturbed)
    assert _epochs_in(result.folder) == [1, 2, 3]
