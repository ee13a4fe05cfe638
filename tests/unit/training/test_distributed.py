"""What the driver hears of workers, while the store of their journal comes and goes."""

import time
from pathlib import Path
from typing import Any

import pytest
from ray.train import ControllerError, FailureConfig, WorkerGroupError
from ray.train.v2._internal.exceptions import WorkerGroupStartupFailedError, WorkerGroupStartupTimeoutError
from ray.train.v2._internal.execution.failure_handling import FailureDecision

from vse.errors import CredentialsError, StorageError
from vse.journal import FILE_NAME, Journal
from vse.storage import Folder
from vse.training.distributed import RETRIES, Listener, Waited, _Policy, _raise_again, _worker


def test_epochs_are_heard_once_although_the_store_was_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[float] = []
    away = [False]
    read = Folder.read_bytes

    def read_bytes(folder: Folder, name: str) -> bytes:
        if away[0]:
            raise StorageError("could not connect")
        return read(folder, name)

    monkeypatch.setattr(Folder, "read_bytes", read_bytes)
    monkeypatch.setattr("vse.training.distributed.LISTEN_SECONDS", 0.01)
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

    monkeypatch.setattr("vse.presets.from_data", late)
    told = _worker({"config": {}})
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
    monkeypatch.setattr("vse.training.distributed.time.monotonic", lambda: now[0])
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


def _until(condition: Any) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
