"""A run whose workspace is an address: trained, killed, resumed and measured against a local S3 server."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests import s3
from vse import journal, pipeline
from vse.config import override
from vse.measuring.options import MeasureOptions
from vse.measuring.stage import measure_run
from vse.presets import preset
from vse.training.loop import Loop
from vse.training.run import run_training
from vse.workspace import Workspace

CONFIG = override(
    preset("vsepp_tiny"),
    {"data.num_train": 12, "data.num_val": 4, "data.num_test": 4, "data.num_shifted": 0, "model.dim": 16},
)


@pytest.fixture
def remote(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workspace]:
    monkeypatch.setenv("VSE_CACHE", str(tmp_path / "cache"))
    with s3.server() as place:
        yield Workspace.open(s3.address(place, "lab"))


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
    options = MeasureOptions(attacks=())
    assert measure_run(result.folder, remote, options) == measure_run(
        local.folder, Workspace.open(str(tmp_path / "local")), options
    )
    assert run_training(CONFIG, remote).trained is False
    assert pipeline.prepare(CONFIG, remote).fingerprints == {
        "records": pipeline.describe(CONFIG, remote).fingerprint,
        "features": pipeline.prepare(CONFIG, Workspace.open(str(tmp_path / "local"))).fingerprints["features"],
    }


def _story(workspace: Workspace, run: str) -> journal.Story:
    return journal.parse(workspace.run(run).read_bytes(journal.FILE_NAME))
