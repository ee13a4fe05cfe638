"""A sweep all of whose nodes are left out as sick, on a Ray of one node that passes for one of several."""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.sweeps import trials
from vse.cluster.capacity import Capacity, NodeKind
from vse.storage.folder import Folder
from vse.sweeps.budget import Resources
from vse.sweeps.ledger import Ledger

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def one_node() -> Iterator[None]:
    from vse.cluster.runtime import Config, running_ray

    with running_ray(Config(address="local", cpus=2, store_mib=80)):
        yield


@pytest.mark.usefixtures("one_node")
def test_trials_start_again_when_the_first_node_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.unit.sweeps.running import run_sweep
    from vse.sweeps import experiment, nodes

    monkeypatch.setenv("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", "20")
    monkeypatch.setattr(experiment, "_one_node_alone", lambda need: False)
    monkeypatch.setattr(nodes, "PAUSE", 0.5)
    monkeypatch.setattr(nodes, "AWAY", 5.0)
    calls = tmp_path / "calls"
    calls.mkdir()
    ledger, work = Ledger(Folder.open(tmp_path / "sweep")), functools.partial(trials.count, folder=str(calls))
    (entry,) = run_sweep(ledger, [{"x": "sick twice"}], work, concurrency=1)
    assert (entry.state, entry.attempts) == ("finished", 3)


@pytest.mark.parametrize(
    ("kinds", "limit", "elsewhere"),
    [
        ((NodeKind(4.0), NodeKind(4.0)), None, False),  # the two that are up
        ((NodeKind(4.0), NodeKind(4.0), NodeKind(0.5)), None, False),  # and one that holds no trial
        ((NodeKind(4.0), NodeKind(4.0), NodeKind(1.0)), None, True),
        ((NodeKind(0.0, head=True), NodeKind(4.0, count=8)), 8, True),  # more may come
        ((NodeKind(0.0, head=True), NodeKind(4.0, count=8)), 2, False),
    ],
)
def test_where_a_trial_could_run_beside_nodes_that_are_left_out(
    kinds: tuple[NodeKind, ...], limit: int | None, elsewhere: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vse.sweeps import experiment

    up: list[dict[str, Any]] = [
        {"NodeID": name, "Alive": name != "c", "Resources": {"CPU": 4.0}, "Labels": {}} for name in "abc"
    ]
    monkeypatch.setattr(experiment.ray, "nodes", lambda: up)
    monkeypatch.setattr(experiment, "capacity", lambda: Capacity(kinds, limit))
    assert experiment._elsewhere(Resources(), ["a", "b", "c"]) == elsewhere
    assert experiment._elsewhere(Resources(), ["a", "c"])
