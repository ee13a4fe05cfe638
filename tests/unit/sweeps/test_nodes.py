"""Nodes at fault, and trials that wait for nodes, on a cluster and a clock that are made up."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest

from vse.errors import PlacementError
from vse.sweeps.nodes import AWAY, ENDS, PAUSE, UNKNOWN, ResourceWatch, SickNodes


class Nodes(SickNodes):
    """On a clock that a test moves."""

    def __init__(self, alone: bool = False) -> None:
        self.now = 0.0
        super().__init__(lambda: alone, clock=lambda: self.now)

    def full(self, node: str) -> str:
        return self.ill(node, f"host-{node}", "StorageError", "/data: no space left on device")


def test_a_node_is_left_out_after_two_ends_and_for_a_while(caplog: pytest.LogCaptureFixture) -> None:
    nodes = Nodes()
    assert not nodes.rests()
    assert nodes.full("a") == "here"
    assert (nodes.left_out(), nodes.rests()) == ([], True)
    nodes.now = PAUSE
    assert not nodes.rests()
    assert nodes.full("a") == "here"
    assert nodes.left_out() == ["a"]
    (line,) = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert line == "no trial starts on node host-a for 15 minutes: /data: no space left on device"
    nodes.now += AWAY
    assert nodes.left_out() == []
    assert nodes.full("a") == "here"
    assert nodes.left_out() == ["a"]  # one more is enough
    nodes.well("a")
    assert nodes.left_out() == []


def test_what_two_nodes_say_is_no_nodes_fault() -> None:
    nodes = Nodes()
    assert nodes.full("a") == "here"
    assert nodes.ill("b", "host-b", "InputError", "torch finds no GPU on host-b") == "here"  # another trouble
    assert nodes.full("b") == "everywhere"


def test_trials_that_end_well_in_between_show_that_it_is_not_everywhere() -> None:
    nodes = Nodes()
    for _ in range(ENDS):
        assert nodes.full("a") == "here"
    nodes.well("c")
    assert nodes.full("b") == "here"
    assert nodes.left_out() == ["a"]
    assert nodes.full("b") == "here"
    assert nodes.left_out() == ["a", "b"]


def test_faults_that_lie_hours_apart_are_not_everywhere() -> None:
    nodes = Nodes()
    assert nodes.full("a") == "here"
    nodes.now += AWAY
    assert nodes.full("b") == "here"
    nodes.now += AWAY - 1
    assert nodes.full("c") == "everywhere"


def test_the_only_node_has_nobody_to_be_compared_with() -> None:
    nodes = Nodes(alone=True)
    assert nodes.full("a") == "alone"
    assert (nodes.left_out(), nodes.rests()) == ([], False)


def test_where_the_node_is_not_known_more_ends_are_needed() -> None:
    nodes = Nodes()
    assert [nodes.full("") for _ in range(UNKNOWN)] == ["here"] * (UNKNOWN - 1) + ["everywhere"]
    assert nodes.left_out() == []


HEAD = {"Alive": True, "Resources": {"CPU": 4.0}}
WITH_GPU = {"Alive": True, "Resources": {"CPU": 8.0, "GPU": 1.0}}
GONE = {**WITH_GPU, "Alive": False}


class Cluster:
    """Nodes and a clock that a test moves."""

    def __init__(self, *nodes: dict[str, Any]) -> None:
        self.now, self.up = 0.0, list(nodes)
        self.waiting = ResourceWatch(
            {"CPU": 1.0, "GPU": 1.0}, deadline=900.0, clock=lambda: self.now, nodes=lambda: self.up
        )

    def passes(self, seconds: float, waiting: int, running: int = 0, avoided: Sequence[str] = ()) -> None:
        """Looks every five seconds, as many as there are in that time."""
        for _ in range(round(seconds / 5)):
            self.now += 5.0
            self.waiting.look(["TERMINATED"] * 3 + ["PENDING"] * waiting + ["RUNNING"] * running, avoided)


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize("nodes", [(HEAD,), (HEAD, GONE)])
def test_without_any_place_the_sweep_ends_after_the_deadline(nodes: Any) -> None:
    cluster = Cluster(*nodes)
    cluster.passes(900, waiting=12)
    with pytest.raises(PlacementError) as raised:
        cluster.passes(5, waiting=12)
    assert str(raised.value) == (
        "no node that can hold a trial started within 900 s: each trial needs 1 CPUs and 1 GPUs of one node, "
        "12 are waiting, the cluster has 4 CPUs and 0 GPUs on 1 nodes; see `ray status`"
    )


def test_warnings_come_at_doubling_intervals(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(HEAD)
    cluster.passes(895, waiting=2)
    lines = said(caplog)
    assert [line.split(" s for")[0] for line in lines] == [
        f"2 trials have been waiting {s}" for s in (60, 120, 240, 480)
    ]
    assert all(line.endswith("the sweep ends after 900 s without any") for line in lines)


def test_a_node_that_comes_starts_the_wait_anew(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(HEAD)
    cluster.passes(800, waiting=1)
    cluster.up.append(WITH_GPU)
    cluster.passes(5, waiting=1)  # its actor is starting
    cluster.passes(600, waiting=0, running=1)
    cluster.up[1] = GONE
    caplog.clear()
    cluster.passes(900, waiting=1)
    assert said(caplog)[0].startswith("1 trials have been waiting 60 s")
    with pytest.raises(PlacementError):
        cluster.passes(5, waiting=1)


def test_fewer_nodes_than_the_limit_are_told_of_and_never_end_a_sweep(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(HEAD, WITH_GPU)
    cluster.passes(5000, waiting=3, running=1)
    assert len(said(caplog)) == 7  # 60 s, 120, ... 3840
    assert said(caplog)[0] == (
        "3 trials have been waiting 60 s for resources: each needs 1 CPUs and 1 GPUs of one node, 1 run, the cluster "
        "has 12 CPUs and 1 GPUs on 2 nodes"
    )


def test_a_place_that_another_job_holds_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(HEAD, WITH_GPU)
    cluster.passes(5000, waiting=1)
    assert len(said(caplog)) == 7
    assert not any("ends" in line for line in said(caplog))


def test_a_node_that_all_who_wait_keep_from_is_no_place() -> None:
    """Whether it is still left out or not: what they keep from was said when they were handed out."""
    cluster = Cluster({**WITH_GPU, "NodeID": "a"}, {**GONE, "NodeID": "b"})
    cluster.passes(900, waiting=2, avoided=["a"])
    with pytest.raises(PlacementError, match="no node that can hold a trial started within 900 s"):
        cluster.passes(5, waiting=2, avoided=["a"])


def test_workers_without_places_are_told_of_while_their_trials_run(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(HEAD)
    cluster.waiting = ResourceWatch(
        {"CPU": 0.1},
        nested=True,
        deadline=900.0,
        clock=lambda: cluster.now,
        nodes=lambda: cluster.up,
        without_resources=lambda: 2,
        release=lambda: None,
    )
    cluster.passes(245, waiting=0, running=3)
    assert said(caplog) == [
        f"2 of 3 running trials have been waiting {seconds} s for worker resources; see `ray status`"
        for seconds in (60, 120, 240)
    ]


def test_a_sweep_stands_where_no_trial_moves() -> None:
    cluster = Cluster(HEAD)
    cluster.now = 899.0
    assert not cluster.waiting.stands("a", 899.0, {})
    cluster.waiting.moved()
    cluster.now = 1798.0
    assert not cluster.waiting.stands("a", 899.0, {})
    cluster.now = 1799.0
    assert cluster.waiting.stands("a", 900.0, {})


def test_a_trial_in_a_long_epoch_is_no_sign_that_a_sweep_stands() -> None:
    cluster = Cluster(HEAD)
    for wait in range(1, 9):  # of the trial that has no place; the other says nothing for two hours
        cluster.now = 901.0 * wait
        assert not cluster.waiting.stands("surplus", 901.0, {"long": cluster.now})


def test_a_sweep_whose_nodes_are_all_gone_ends() -> None:
    """Each of three trials waits in vain, and comes again at once, before the last of them says so."""
    cluster = Cluster()
    cluster.now = 901.0
    assert not cluster.waiting.stands("a", 901.0, {"b": 900.5, "c": 899.0})
    cluster.now = 902.0
    assert not cluster.waiting.stands("b", 901.5, {"a": 1.0, "c": 900.0})
    cluster.now = 903.0
    assert cluster.waiting.stands("c", 901.0, {"a": 2.0, "b": 1.0})


def test_it_ends_also_where_its_trials_began_one_after_the_other() -> None:
    cluster = Cluster()
    ends = [cluster.waiting.stands("a", 900.0, {"b": 600.0, "c": 300.0})]
    for _ in range(3):
        cluster.now += 300.0
        ends.append(cluster.waiting.stands("c", 900.0, {"a": 600.0, "b": 300.0}))
    assert ends == [False, False, False, True]
