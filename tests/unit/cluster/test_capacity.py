"""What fits on the nodes that a cluster can have, node by node, within the limits of its file."""

import contextlib
import logging
import sys
from collections.abc import Generator, Mapping
from datetime import datetime, timedelta
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.jobs.processes import ROOT
from vse.cluster import placement
from vse.cluster.capacity import Capacity, NodeKind, listed, living, missing, planned, up_for, wait_for
from vse.cluster.placement import preflight
from vse.cluster.runtime import LIFECYCLE, Config
from vse.preflight.nodes import check_hosts

STEADY, SPOT = {LIFECYCLE: "on-demand"}, {LIFECYCLE: "spot"}
HEAD = NodeKind(4, head=True)


def test_the_cluster_file_that_comes_with_it() -> None:
    most = planned(yaml.safe_load((ROOT / "cluster.yaml").read_text()))
    assert most.nodes == 15
    assert most.total() == {"CPU": 4 + 12 * 8 + 2 * 16, "GPU": 12}
    assert most.total(STEADY) == {"CPU": 32, "GPU": 4}
    assert most.without_gpus().total() == {"CPU": 36, "GPU": 0}
    assert (most.room(1, 1), most.room(1, 1, STEADY), most.room(1, 2)) == (12, 4, 0)
    assert most.room(9) == 2  # the cpu type alone has so many in one node


def test_the_limit_over_all_types_counts() -> None:
    kinds = (HEAD, NodeKind(8, 1, 4, STEADY), NodeKind(2, 0, 10))
    most = Capacity(kinds, 5)
    assert most.nodes == 6
    assert most.total() == {"CPU": 4 + 4 * 8 + 2, "GPU": 4}
    assert most.room(2) == 2 + 4 * 4 + 1


@pytest.mark.parametrize("limit", range(6))
def test_the_largest_sum_is_that_of_the_best_choice_of_nodes(limit: int) -> None:
    kinds = (HEAD, NodeKind(3, 1, 2, STEADY), NodeKind(8, 0, 2, SPOT), NodeKind(1, 4, 1))
    best = 0
    for counts in product(*(range(kind.count + 1) for kind in kinds[1:])):
        if sum(counts) <= limit:
            held = sum(count * int(kind.cpus // 1.5) for kind, count in zip(kinds[1:], counts, strict=True))
            best = max(best, int(HEAD.cpus // 1.5) + held)
    assert Capacity(kinds, limit).room(1.5) == best


def test_fractions_of_a_gpu_share_one() -> None:
    assert Capacity((NodeKind(8, 1),)).room(1, 0.1) == 8
    assert Capacity((NodeKind(16, 1),)).room(1, 0.1) == 10
    assert Capacity((NodeKind(8, 1), NodeKind(8, 1))).room(1, 0.6) == 2


def test_work_without_gpus_takes_nodes_that_have_some_where_no_others_are() -> None:
    only = Capacity((NodeKind(0, head=True), NodeKind(8, 1, 3)), 3)
    assert only.without_gpus() is only


def test_dead_nodes_hold_nothing() -> None:
    nodes: list[Mapping[str, Any]] = [
        {"Alive": True, "Resources": {"CPU": 2.0, "GPU": 1.0}, "Labels": STEADY},
        {"Alive": True, "Resources": {"memory": 1e9}, "Labels": None},
        {"Alive": False, "Resources": {"CPU": 64.0}, "Labels": {}},
    ]
    assert living(nodes).total() == {"CPU": 2, "GPU": 1}
    assert living(nodes).nodes == 2
    assert living(nodes).room(1, 1, SPOT) == 0


HOSTS = ("10.0.0.1", "10.0.0.2", "10.0.0.3")
PLAN: dict[str, Any] = {
    "provider": {"type": "local", "head_ip": HOSTS[0], "worker_ips": list(HOSTS[1:])},
    "available_node_types": {"local.cluster.node": {"resources": {}, "max_workers": 2, "node_config": {}}},
    "head_node_type": "local.cluster.node",
    "max_workers": 2,
}


def up(*hosts: str) -> list[dict[str, Any]]:
    """What Ray says where these are up; one that was lost stays in its list."""
    lost = {"NodeManagerAddress": HOSTS[1], "Alive": False, "Resources": {}}
    each = {"Alive": True, "Resources": {"CPU": 4.0, "GPU": 1.0}, "Labels": {}}
    return [lost, *({**each, "NodeManagerAddress": host} for host in hosts)]


class Joining:
    """A cluster whose second and third host join after so many seconds, and the clock by which they do."""

    def __init__(self, *after: float) -> None:
        self.now, self.after = 0.0, after

    def nodes(self) -> list[dict[str, Any]]:
        return up(HOSTS[0], *(host for host, after in zip(HOSTS[1:], self.after, strict=True) if self.now >= after))

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def test_which_hosts_there_are_and_which_have_joined() -> None:
    assert listed(PLAN) == HOSTS
    assert listed({"provider": {"type": "aws"}}) == listed({}) == ()
    assert listed({"provider": {"type": "local", "head_ip": HOSTS[0]}}) == HOSTS[:1]
    assert missing(HOSTS, up(HOSTS[0])) == list(HOSTS[1:])
    assert missing(HOSTS, up(*HOSTS)) == []
    assert missing(("localhost", *HOSTS[1:]), up("127.0.0.1")) == list(HOSTS[1:])
    assert missing(HOSTS, up(HOSTS[0], "192.168.7.2", "192.168.7.3")) == []  # by other addresses of theirs


@pytest.mark.parametrize(("name", "seconds"), [("session_{}_123456_77", 65.0), ("session", 0.0), ("", 0.0)])
def test_for_how_long_a_cluster_has_been_up(name: str, seconds: float, tmp_path: Path) -> None:
    begun = datetime.now() - timedelta(seconds=65)
    session = tmp_path / name.format(begun.strftime("%Y-%m-%d_%H-%M-%S"))
    if name:
        session.mkdir()
        (tmp_path / "session_latest").symlink_to(session)
    assert seconds <= up_for(tmp_path) <= seconds + 10 * bool(seconds)


def test_hosts_are_waited_for_until_they_have_joined_or_it_takes_too_long(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    for after, seconds, absent, took in (((0, 0), 900, [], 0), ((5, 60), 900, [], 60), ((5, 999), 30, [HOSTS[2]], 30)):
        caplog.clear()
        cluster = Joining(*after)
        found = wait_for(HOSTS, cluster.nodes, seconds, clock=lambda c=cluster: c.now, sleep=cluster.sleep)
        assert (found, cluster.now) == (absent, took)
        begun = f"1 of 3 hosts have joined (missing: 10.0.0.2, 10.0.0.3); waiting up to {seconds} s for the others"
        assert caplog.messages == ([begun] if took else [])


@pytest.mark.usefixtures("bare_environment")
def test_a_job_counts_the_hosts_that_join_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It was sized by the head alone, and a GPU that the others have was refused."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "ray_bootstrap_config.yaml").write_text(str(PLAN))
    cluster = Joining(5, 8)

    def nodes() -> list[dict[str, Any]]:
        return [
            {**node, "Resources": {"CPU": 4.0}} if node["NodeManagerAddress"] == HOSTS[0] else node
            for node in cluster.nodes()
        ]

    @contextlib.contextmanager
    def joined(config: Config) -> Generator[int]:
        yield 1

    monkeypatch.setattr(placement, "running_ray", joined)
    monkeypatch.setattr(placement, "up_for", lambda: 100.0)
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: False, nodes=nodes))
    monkeypatch.setattr(wait_for, "__kwdefaults__", {"clock": lambda: cluster.now, "sleep": cluster.sleep})
    preflight(str(tmp_path / "w"), Config(shared_workspace=True), workers=2, gpus_per_worker=1)
    assert cluster.now == 8.0
    assert not caplog.messages
    cluster.now, cluster.after = 0.0, (5, 9999)
    preflight(str(tmp_path / "w"), Config(shared_workspace=True), workers=1, gpus_per_worker=1)
    assert cluster.now == 800.0
    assert caplog.messages == ["2 of 3 hosts have joined (missing: 10.0.0.3); continuing with the available nodes"]


def test_the_preflight_names_the_hosts_that_are_missing() -> None:
    (check,) = check_hosts(PLAN, lambda: up(HOSTS[0], HOSTS[2]))
    assert (check.what, check.where, check.state) == ("hosts", "cluster", "problem")
    assert check.detail.startswith("2 of 3 hosts have joined (missing: 10.0.0.2); ")
    (check,) = check_hosts(PLAN, lambda: up(*HOSTS))
    assert (check.state, check.detail) == ("ok", "3 of 3 hosts have joined")
    assert check_hosts({"provider": {"type": "aws"}}, list) == []
