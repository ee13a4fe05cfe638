"""What fits on the nodes that a cluster can have, node by node, within the limits of its file."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest
import yaml

from tests.jobs.processes import ROOT
from vse.cluster.capacity import Capacity, Kind, living, planned
from vse.cluster.runtime import LIFECYCLE

STEADY, SPOT = {LIFECYCLE: "on-demand"}, {LIFECYCLE: "spot"}
HEAD = Kind(4, head=True)


def test_the_cluster_file_that_comes_with_it() -> None:
    most = planned(yaml.safe_load((ROOT / "cluster.yaml").read_text()))
    assert most.nodes == 15
    assert most.total() == {"CPU": 4 + 12 * 8 + 2 * 16, "GPU": 12}
    assert most.total(STEADY) == {"CPU": 32, "GPU": 4}
    assert most.without_gpus().total() == {"CPU": 36, "GPU": 0}
    assert (most.room(1, 1), most.room(1, 1, STEADY), most.room(1, 2)) == (12, 4, 0)
    assert most.room(9) == 2  # the cpu type alone has so many in one node


def test_the_limit_over_all_types_counts() -> None:
    kinds = (HEAD, Kind(8, 1, 4, STEADY), Kind(2, 0, 10))
    most = Capacity(kinds, 5)
    assert most.nodes == 6
    assert most.total() == {"CPU": 4 + 4 * 8 + 2, "GPU": 4}
    assert most.room(2) == 2 + 4 * 4 + 1


@pytest.mark.parametrize("limit", range(6))
def test_the_largest_sum_is_that_of_the_best_choice_of_nodes(limit: int) -> None:
    kinds = (HEAD, Kind(3, 1, 2, STEADY), Kind(8, 0, 2, SPOT), Kind(1, 4, 1))
    best = 0
    for counts in product(*(range(kind.count + 1) for kind in kinds[1:])):
        if sum(counts) <= limit:
            held = sum(count * int(kind.cpus // 1.5) for kind, count in zip(kinds[1:], counts, strict=True))
            best = max(best, int(HEAD.cpus // 1.5) + held)
    assert Capacity(kinds, limit).room(1.5) == best


def test_fractions_of_a_gpu_share_one() -> None:
    assert Capacity((Kind(8, 1),)).room(1, 0.1) == 8
    assert Capacity((Kind(16, 1),)).room(1, 0.1) == 10
    assert Capacity((Kind(8, 1), Kind(8, 1))).room(1, 0.6) == 2


def test_work_without_gpus_takes_nodes_that_have_some_where_no_others_are() -> None:
    only = Capacity((Kind(0, head=True), Kind(8, 1, 3)), 3)
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
