"""Evaluations in shards: in this process, by Ray's workers, continued after a kill and a lost worker, all equal."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from vse.cluster import runtime
from vse.config import override
from vse.evaluation import shards as pure
from vse.evaluation.work import Arrays
from vse.presets import preset
from vse.stages.measuring import shards
from vse.stages.measuring.options import MeasureOptions
from vse.stages.measuring.stage import measure
from vse.stages.train import run_training
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.seconds

TASKS = ("retrieval", "attacks")
SIZES = {"data.num_train": 40, "data.num_val": 6, "data.num_test": 24, "data.num_shifted": 4, "model.dim": 16}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace.open(str(tmp_path_factory.mktemp("shards")))


@pytest.fixture(scope="module")
def run(workspace: Workspace) -> Folder:
    config = override(preset("scan_t2i_avg_small"), SIZES | {"train.epochs": 1})
    return run_training(config, workspace).folder


@pytest.fixture(scope="module")
def expected(run: Folder, workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> dict[str, float]:
    """The numbers of one evaluation without shards."""
    assert not pure.worth_shards(True, 24, 24 * 5)
    return measured(run, workspace, tmp_path_factory.mktemp("whole"))


@pytest.fixture
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pure, "FROM_PAIRS", 1)
    monkeypatch.setattr(pure, "CAPTIONS_AT_ONCE", 32)


def measured(run: Folder, workspace: Workspace, folder: Path) -> dict[str, float]:
    return measure([run], Folder.open(folder), workspace, TASKS, MeasureOptions()).metrics


@pytest.mark.slow  # the next one holds the numbers
def test_shards_in_one_process_are_one_evaluation(
    run: Folder,
    workspace: Workspace,
    expected: dict[str, float],
    small_shards: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shards.MeasureRequest, "plan", lambda request: pytest.fail("planned twice"))
    assert measured(run, workspace, tmp_path) == expected
    assert not [*(tmp_path / "shards").iterdir()]  # deleted with the numbers kept
    assert sum(path.suffix == ".json" for path in tmp_path.iterdir()) == len(TASKS)


def test_an_evaluation_goes_on_from_its_finished_shards(
    run: Folder,
    workspace: Workspace,
    expected: dict[str, float],
    small_shards: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counted: list[int] = []

    def stopping(after: int) -> Callable[..., Arrays]:
        def counts(coder: pure.Coder, pairs: np.ndarray, shard: int, size: int) -> Arrays:
            if len(counted) == after:
                raise KeyboardInterrupt
            counted.append(shard)
            return original(coder, pairs, shard, size)

        return counts

    original = pure.counts
    monkeypatch.setattr(pure, "counts", stopping(2))
    with pytest.raises(KeyboardInterrupt):
        measured(run, workspace, tmp_path)
    monkeypatch.setattr(pure, "counts", stopping(99))
    monkeypatch.setattr(pure, "true_pairs", lambda *_: pytest.fail("scored again"))
    assert measured(run, workspace, tmp_path) == expected
    assert counted == [0, 1, 2, 3]


@pytest.mark.slow
def test_shards_of_other_options_are_others(
    run: Folder, workspace: Workspace, small_shards: None, tmp_path: Path
) -> None:
    """Two folds: the shards of each by itself, as without shards."""
    options = MeasureOptions(folds=2)
    sharded = measure([run], Folder.open(tmp_path), workspace, TASKS, options).metrics
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pure, "FROM_PAIRS", 2**40)
        whole = measure([run], Folder.open(tmp_path / "whole"), workspace, TASKS, options).metrics
    assert sharded == whole


SLOW = """
import sys, time
from pathlib import Path
from vse.evaluation import shards
from vse.stages.measuring.options import MeasureOptions
from vse.stages.measuring.stage import measure
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace

shards.FROM_PAIRS, shards.CAPTIONS_AT_ONCE, counts = 1, 32, shards.counts
def slowly(coder, pairs, shard, size):
    if shard > 1:
        time.sleep(600)
    return counts(coder, pairs, shard, size)
shards.counts = slowly
run, folder, workspace = sys.argv[1:]
measure([Folder.open(run)], Folder.open(folder), Workspace.open(workspace), ("retrieval", "attacks"), MeasureOptions())
"""


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_killed_evaluation_goes_on(
    run: Folder,
    workspace: Workspace,
    expected: dict[str, float],
    small_shards: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    arguments = [run.uri, str(tmp_path), workspace.root.uri]
    process = subprocess.Popen([sys.executable, "-c", SLOW, *arguments])
    deadline = time.monotonic() + 120
    while len([*tmp_path.glob("shards/*.npz")]) < 4 + 2:  # true pairs of four shards, and counts of two
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.kill()
    process.wait()
    counted, original = list[int](), pure.counts
    monkeypatch.setattr(pure, "true_pairs", lambda *_: pytest.fail("scored again"))
    monkeypatch.setattr(pure, "counts", lambda *args: counted.append(args[2]) or original(*args))
    assert measured(run, workspace, tmp_path) == expected
    assert counted == [2, 3]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    with runtime.running_ray(runtime.Config(address="local", cpus=2, gpus=0, store_mib=100)):
        yield


def workers() -> list[int]:
    """Processes in which a shard is counted."""
    listed = subprocess.run(["ps", "-eo", "pid=,args="], capture_output=True, text=True, check=True).stdout.splitlines()
    return [int(line.split()[0]) for line in listed if line.split()[1] == "ray::_compute"]


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_two_workers_count_what_one_process_does_though_one_is_killed(
    cluster: None,
    run: Folder,
    workspace: Workspace,
    expected: dict[str, float],
    small_shards: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pure, "true_pairs", lambda *_: pytest.fail("scored by the driver"))
    assert measured(run, workspace, tmp_path / "quiet") == expected
    killed = list[int]()

    def kill_one() -> None:
        while not killed:
            if found := workers():
                os.kill(found[0], signal.SIGKILL)
                killed.append(found[0])
            time.sleep(0.05)

    killing = threading.Thread(target=kill_one)
    killing.start()
    assert measured(run, workspace, tmp_path / "killed") == expected
    killing.join(timeout=10)
    assert killed
