"""A run whose workspace is an address: trained, killed, resumed and measured against a local S3 server."""

import math
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import s3
from tests.unit.asked import asked
from tests.waiting import wait_for
from vse.config import override, to_dict
from vse.errors import InputError
from vse.presets import preset
from vse.stages import pipeline
from vse.stages.describe import describe
from vse.stages.measuring.stage import measure_run
from vse.stages.train import run_training
from vse.stages.trained import load_run
from vse.storage.lease import lease
from vse.training.loop import Loop
from vse.training.run_journal import tell_lost_end
from vse.workspace import journal
from vse.workspace.layout import Workspace

CONFIG = override(
    preset("vsepp_tiny"),
    {"data.num_train": 12, "data.num_val": 4, "data.num_test": 4, "data.num_shifted": 0, "model.dim": 16},
)


@pytest.fixture
def remote(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    monkeypatch.setenv("VSE_CACHE", str(tmp_path / "cache"))
    with s3.server() as place:
        yield Workspace.open(s3.address(place, "lab"))


@pytest.mark.process
def test_a_run_on_s3_is_the_run_on_a_disk(remote: Workspace, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VSE_CACHE", str(tmp_path / "other"))
    local = run_training(CONFIG, Workspace.open(str(tmp_path / "local")))
    monkeypatch.setenv("VSE_CACHE", str(tmp_path / "cache"))
    epoch = Loop._epoch

    def killed(self: Loop, progress: Any) -> None:
        assert remote.run(local.run).is_locked()
        if progress.epoch == 1:
            raise KeyboardInterrupt
        epoch(self, progress)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_epoch", killed)
        with pytest.raises(KeyboardInterrupt):
            run_training(CONFIG, remote)
    assert _story(remote, local.run).status == "killed"
    assert not remote.run(local.run).is_locked()
    monkeypatch.setenv("VSE_CACHE", str(tmp_path / "another machine"))
    result = run_training(CONFIG, remote)
    assert (result.run, result.metrics, result.best) == (local.run, local.metrics, local.best)
    assert result.checkpoint.read_bytes("model.safetensors") == local.checkpoint.read_bytes("model.safetensors")
    story = _story(remote, local.run)
    assert (story.run, story.status) == (local.run, "finished")
    assert {step for key, step in story.metrics if key == "train/sent"} == {1, 2}
    assert [path for path, _ in story.artifacts] == ["config.json"]
    assert remote.run(local.run).exists("config.json")
    options = asked("retrieval")
    assert measure_run(result.folder, remote, *options) == measure_run(
        local.folder, Workspace.open(str(tmp_path / "local")), *options
    )
    assert run_training(CONFIG, remote).trained is False
    assert pipeline.prepare(CONFIG, remote).fingerprints == {
        "records": describe(CONFIG, remote).fingerprint,
        "features": pipeline.prepare(CONFIG, Workspace.open(str(tmp_path / "local"))).fingerprints["features"],
    }


@pytest.mark.process
@pytest.mark.slow
def test_damage_on_s3_is_mended_as_on_a_disk(
    remote: Workspace, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Journal and kept checkpoint, as a machine that has neither sees them."""
    result = run_training(CONFIG, remote)
    before, data = _story(remote, result.run), result.folder.read_bytes(journal.FILE_NAME)
    monkeypatch.setenv("VSE_CACHE", str(tmp_path / "another machine"))
    result.folder.write_bytes(journal.FILE_NAME, data[: len(data) // 2])
    assert tell_lost_end(remote, result.folder)
    story = _story(remote, result.run)
    assert (story.status, story.metrics.keys()) == ("finished", before.metrics.keys())
    weights = result.checkpoint.read_bytes("model.safetensors")
    result.checkpoint.write_bytes("model.safetensors", weights[:-1] + bytes([weights[-1] ^ 4]))
    with pytest.raises(InputError, match=rf"{result.checkpoint.name}/model\.safetensors is damaged or missing; python"):
        load_run(result.folder)
    again = run_training(CONFIG, remote)
    assert again.trained
    assert "model.safetensors is damaged or missing; trained again from the beginning" in caplog.text
    assert again.checkpoint.read_bytes("model.safetensors") == weights


SUSPENDED = """
import math, sys, time
from pathlib import Path
from vse.errors import StorageError
from vse.errors import InputError
from vse.storage.lease import lease
from vse.presets import from_data
from vse.stages.trained import load_run
from vse.stages.train import run_training
from vse.training.run_journal import tell_lost_end
from vse.workspace.layout import Workspace

lease.__wrapped__.__defaults__ = (4.0, math.inf)
signs = Path(sys.argv[2])

def hold(numbers):
    (signs / f"epoch-{numbers['epoch']}").touch()
    while not (signs / "go").exists():
        time.sleep(0.02)

try:
    run_training(from_data(eval(sys.argv[3])), Workspace.open(sys.argv[1]), report=hold)
except StorageError as error:
    print(f"{type(error).__name__}: {error}")
"""


@pytest.mark.process
@pytest.mark.slow
def test_who_lost_its_lease_while_it_was_suspended_writes_no_more(
    remote: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or two would train the run and mix their checkpoints: as when a laptop sleeps, or a virtual machine is moved."""
    config = override(CONFIG, {"train.epochs": 3})
    pipeline.prepare(config, remote)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    environment["VSE_CACHE"] = str(tmp_path / "another machine")
    given = [remote.root.uri, str(tmp_path), repr(to_dict(config))]
    first = subprocess.Popen([sys.executable, "-c", SUSPENDED, *given], env=environment, stdout=subprocess.PIPE)
    try:
        wait_for(tmp_path / "epoch-1", first, seconds=100)
        first.send_signal(signal.SIGSTOP)
        monkeypatch.setattr(getattr(lease, "__wrapped__"), "__defaults__", (4.0, math.inf))  # noqa: B009
        result = run_training(config, remote)
        assert result.trained
        before = {name: result.checkpoint.info(name) for name in result.checkpoint.names()}
        kept, told = result.folder.info("result.json"), result.folder.info(journal.FILE_NAME)
        checkpoints = result.folder.child("checkpoints").names()
        (tmp_path / "go").touch()
        first.send_signal(signal.SIGCONT)
        said, _ = first.communicate(timeout=100)
    finally:
        first.kill()
        first.wait()
    assert said.decode().startswith("TakenOver: s3://bucket/lab/runs/")
    assert said.decode().endswith(
        "another job took this over because this one did not answer in time; this one ends here\n"
    )
    assert not (tmp_path / "epoch-2").exists()
    assert {name: result.checkpoint.info(name) for name in result.checkpoint.names()} == before
    assert (result.folder.info("result.json"), result.folder.info(journal.FILE_NAME)) == (kept, told)
    assert result.folder.child("checkpoints").names() == checkpoints
    assert _story(remote, result.run).status == "finished"


def _story(workspace: Workspace, run: str) -> journal.JournalState:
    return journal.parse(workspace.run(run).read_bytes(journal.FILE_NAME))
