"""What the driver hears of workers, while the store of their journal comes and goes."""

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ray.exceptions import RayActorError, WorkerCrashedError
from ray.train import ControllerError, FailureConfig, WorkerGroupError
from ray.train.v2._internal.exceptions import (
    WorkerGroupStartupFailedError,
    WorkerGroupStartupTimeoutError,
    WorkerHealthCheckFailedError,
)
from ray.train.v2._internal.execution.failure_handling import FailureDecision

from vse.config import override
from vse.errors import CredentialsError, InputError, PlacementError, StorageError, WorkersLostError
from vse.presets import preset
from vse.stages import train_ray as distributed
from vse.stages.train import run_worker
from vse.stages.train_ray import RETRIES, Listener, Waited, _Policy, _raise_again
from vse.storage.folder import Folder
from vse.workspace.journal import FILE_NAME, Journal
from vse.workspace.layout import Workspace


@pytest.mark.parametrize(
    "trouble", [StorageError("could not connect"), InputError("AccessDenied"), CredentialsError("no AWS credentials")]
)
def test_epochs_are_heard_once_although_the_store_was_away(
    trouble: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[float] = []
    away = [False]
    read = Folder.read_bytes

    def read_bytes(folder: Folder, name: str) -> bytes:
        if away[0]:
            raise trouble
        return read(folder, name)

    monkeypatch.setattr(Folder, "read_bytes", read_bytes)
    monkeypatch.setattr("vse.stages.train_ray.LISTEN_SECONDS", 0.01)
    journal = Journal(tmp_path / FILE_NAME)
    journal.metrics({"train/sent": 1.0}, step=1)

    def report(numbers: dict[str, Any]) -> None:
        heard.append(numbers["epoch"])

    listener = Listener(Folder.open(tmp_path), report)
    journal.metrics({"train/sent": 0.5}, step=2)
    _until(lambda: heard == [2])
    away[0] = True
    journal.metrics({"train/sent": 0.4}, step=3)
    time.sleep(0.1)
    assert (heard, listener.thread.is_alive()) == ([2], True)
    away[0] = False
    _until(lambda: heard == [2, 3])
    journal.metrics({"train/sent": 0.3}, step=4)
    listener.close()
    assert heard == [2, 3, 4]


def test_a_worker_without_credentials_says_so_to_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep moves its trial to another node for that, which it does for no other wrong input."""
    line = "s3://bucket/work: no AWS credentials"

    def late(*_: Any) -> None:
        raise CredentialsError(line)

    monkeypatch.setattr("vse.stages.train.from_data", late)
    told = run_worker({"config": {}})
    assert told == ("CredentialsError", line)
    with pytest.raises(CredentialsError, match=line):
        _raise_again(told)


def test_workers_without_a_place_are_waited_for_once_and_lost_ones_replaced() -> None:
    policy = _Policy(FailureConfig(max_failures=RETRIES, controller_failure_limit=RETRIES))
    assert policy.make_decision(ControllerError(WorkerGroupStartupTimeoutError(2))) == FailureDecision.RAISE
    for error in (ControllerError(WorkerGroupStartupFailedError("a node died")), WorkerGroupError("killed", {})):
        told = [policy.make_decision(error) for _ in range(RETRIES + 1)]
        assert told == [FailureDecision.RETRY] * RETRIES + [FailureDecision.RAISE]


def test_epochs_tell_how_long_workers_had_no_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now, heard = [0.0], list[float]()
    monkeypatch.setattr("vse.stages.train_ray.time.monotonic", lambda: now[0])
    controller, driver = Waited(tmp_path / "waited"), Waited(tmp_path / "waited")  # each in a process of its own
    assert driver.seconds() == 0.0
    for begins, placed in ((100.0, 700.0), (5000.0, 5030.0)):  # the second time after a worker was lost
        now[0] = begins
        controller.before_worker_group_start(None)
        now[0] = placed
        assert controller.before_init_train_context([]) == {}
    listener = Listener(Folder.open(tmp_path), lambda numbers: heard.append(numbers["waited"]), driver.seconds)
    Journal(tmp_path / FILE_NAME).metrics({"train/sent": 1.0}, step=1)
    listener.close()
    assert heard == [630.0]


GONE = WorkerHealthCheckFailedError("rank 1", RayActorError())


@pytest.mark.parametrize(
    ("failure", "kind", "line"),
    [
        (
            WorkerGroupError("", {0: ValueError("peer"), 1: GONE}),
            WorkersLostError,
            r"train\.workers=2: workers were lost ",
        ),
        (
            ControllerError(WorkerGroupStartupFailedError("a node died")),
            WorkersLostError,
            r"replacements \(a node died\)",
        ),
        (
            ControllerError(WorkerGroupStartupTimeoutError(2)),
            PlacementError,
            r"train\.workers=2: no nodes with .* started in time",
        ),
        (
            ControllerError(WorkersLostError("train.gpus_per_worker=1: torch finds no GPU on here")),
            WorkersLostError,
            "^train.gpus_per_worker=1: torch finds no GPU on here$",
        ),
        (WorkerGroupError("", {0: ValueError("a fault of ours")}), WorkerGroupError, "Training failed"),
    ],
)
def test_the_end_of_a_training_without_workers_is_one_line(
    failure: Exception, kind: type[Exception], line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fit(*_: Any, **__: Any) -> None:
        raise failure

    monkeypatch.setattr(distributed, "_Trainer", lambda *_, **__: SimpleNamespace(fit=fit))
    config = override(preset("vsepp_tiny"), {"train.workers": 2})
    with pytest.raises(kind, match=line) as raised:
        distributed.train_on_workers(run_worker, config, Workspace.open(str(tmp_path)), "run", "")
    assert kind is WorkerGroupError or "\n" not in str(raised.value)


def test_so_is_that_of_one_in_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    starts = list[Any]()

    def get(asked: Any) -> None:
        starts.append(asked)
        raise WorkerCrashedError

    task = SimpleNamespace(options=lambda **_: SimpleNamespace(remote=lambda arguments: arguments))
    monkeypatch.setattr(distributed, "ray", SimpleNamespace(remote=lambda _: task, get=get))
    place = SimpleNamespace(wait=lambda _: True)
    monkeypatch.setattr(distributed, "placement_group", lambda *_, **__: place)
    monkeypatch.setattr(distributed, "remove_placement_group", lambda _: None)
    monkeypatch.setattr(distributed, "PlacementGroupSchedulingStrategy", lambda _: None)
    with pytest.raises(WorkersLostError, match=r"^train\.workers=1: workers were lost again after 3 replacements \("):
        distributed.train_in_task(run_worker, preset("vsepp_tiny"), Workspace.open(str(tmp_path)), "run", "")
    assert len(starts) == RETRIES + 1


def _until(condition: Any) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
