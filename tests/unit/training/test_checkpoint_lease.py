"""Checkpoints on S3 of a job that loses its run to another while it writes them: the other's stay whole."""

from collections.abc import Callable
from typing import Any

import pytest

from tests import s3
from tests.levels import slow_but
from tests.unit.training.test_checkpoint import Setup
from vse.errors import TakenOver
from vse.storage.folder import Folder
from vse.storage.lease import LeaseHandle
from vse.storage.object_store import ObjectStore
from vse.training.checkpoint import Checkpoints, Progress


class Jobs:
    """Two on one run: `first` has it until `take_over`."""

    def __init__(self, address: str) -> None:
        self.folder, self.store = Folder.open(address), ObjectStore.open(address)
        self.setups = Setup("vsepp"), Setup("vsepp", seed=5)
        self.checkpoints = tuple(
            Checkpoints(self.folder.child("checkpoints"), lease=LeaseHandle(self.store, "lock", owner))
            for owner in (b"1", b"2")
        )
        self.store.write("lock", b"1")

    def save(self, job: int, progress: Progress) -> Folder:
        return self.setups[job].save(self.checkpoints[job], progress)

    def take_over(self) -> None:
        self.store.write("lock", b"2")


@pytest.fixture
def jobs(s3_server: str, request: pytest.FixtureRequest) -> Jobs:
    return Jobs(s3.address_of(request, s3_server))


def _late(monkeypatch: pytest.MonkeyPatch, file: str, meanwhile: Callable[[], None]) -> None:
    """The next write of that file arrives after `meanwhile`."""
    put, waiting = ObjectStore._put, [file]

    def late(self: ObjectStore, name: str, data: bytes, **condition: Any) -> str:
        if name in waiting:
            waiting.remove(name)
            meanwhile()
        return put(self, name, data, **condition)

    monkeypatch.setattr(ObjectStore, "_put", late)


@pytest.mark.parametrize(
    "file",
    slow_but(["model.safetensors", "optimizer.safetensors", "progress.json", "manifest.json"], "model.safetensors"),
)
def test_a_write_that_comes_late_changes_nothing(jobs: Jobs, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The network of one is away for minutes; the other takes over and trains the same epoch."""
    jobs.save(0, Progress(epoch=1, best=1))
    theirs = dict[str, Any]()

    def other() -> None:
        jobs.take_over()
        target = jobs.save(1, Progress(epoch=2, best=1, seconds=7.0))
        theirs.update({name: target.read_bytes(name) for name in target.names()})

    _late(monkeypatch, file, other)
    with pytest.raises(TakenOver, match="another job took this over"):
        jobs.save(0, Progress(epoch=2, best=2))
    target = jobs.folder.child("checkpoints", "epoch-0002")
    assert {name: target.read_bytes(name) for name in target.names()} == theirs
    assert jobs.checkpoints[1].newest() == target
    assert target.read_json("progress.json")["seconds"] == 7.0


@pytest.mark.parametrize("file", ["model.safetensors", "optimizer.safetensors", "progress.json"])
def test_who_lost_the_run_writes_no_further_file(jobs: Jobs, file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _late(monkeypatch, file, jobs.take_over)
    with pytest.raises(TakenOver):
        jobs.save(0, Progress(epoch=1, best=1))
    assert jobs.folder.child("checkpoints", "epoch-0001").names()[-1] == file


def test_who_lost_the_run_deletes_nothing(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs.save(0, Progress(epoch=1, best=1))
    commit = Folder.commit_manifest

    def late(self: Folder, *content: Any) -> dict[str, Any]:
        manifest = commit(self, *content)
        monkeypatch.setattr(Folder, "commit_manifest", commit)
        jobs.take_over()
        jobs.save(1, Progress(epoch=3, best=1))
        return manifest

    monkeypatch.setattr(Folder, "commit_manifest", late)
    with pytest.raises(TakenOver):
        jobs.save(0, Progress(epoch=2, best=2))
    assert jobs.folder.child("checkpoints").names() == ("epoch-0001", "epoch-0003")


def test_what_a_killed_job_left_unfinished_is_written_over(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed() -> None:
        raise KeyboardInterrupt

    _late(monkeypatch, "progress.json", killed)
    with pytest.raises(KeyboardInterrupt):
        jobs.save(0, Progress(epoch=1, best=1))
    jobs.take_over()
    target = jobs.save(1, Progress(epoch=1, best=1))
    assert jobs.checkpoints[1].newest() == target
