"""Nodes that come when a sweep wants them and go when it is done, and nodes that are lost on the way.

Both in a network and process namespace of their own: Ray's test clusters listen on all addresses, and are best ended by
ending everything.
"""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.gpu_nodes import PATIENCE
from tests.cluster.hosts import HOME, WORKSPACE, Hosts, why_not
from tests.cluster.lost_nodes import TRIALS
from tests.jobs.processes import ROOT
from vse.cluster.runtime import LIFECYCLE

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "hosts can be made"),
]

HEAD, ADDRESS = "head", "10.77.0.11"
LIMITS = {"steady": 1, "spot": 2}
IDLE = 15  # seconds
TYPE = "vse.type"  # label of nodes with and without a GPU
# What Ray calls the head of a fake cluster, and its type
_FAKE, _HEAD_TYPE = "f" * 51 + "00000", "ray.head.default"


# Ranks of a training as Ray Train asks for them, on nodes of the given kind; prints the labels of where they came to be
_RANKS = """
import json, ray
from ray.util.placement_group import placement_group
ray.init("auto", log_to_driver=False)
ranks = placement_group([{"CPU": 1}], bundle_label_selector=[{"vse.lifecycle": "on-demand"}])
ray.get(ranks.ready(), timeout=200)
(node,) = set(ray.util.placement_group_table(ranks)["bundles_to_node_id"].values())
print(json.dumps(next(each["Labels"] for each in ray.nodes() if each["NodeID"] == node)))
"""


# Parsing as a stage of any job, of which few captions are much and a shard little
_PARSE = """
from vse.stages import pipeline
from vse.stages.describe import describe
from vse.stages.parse import parse_dataset
from vse.config import override
from vse.stages import parse as parsing
from vse.presets import preset
from vse.workspace.layout import Workspace
parsing.WORTH_RAY, parsing.SHARD_TEXTS = 1, 20
config, place = preset("univse_tiny"), Workspace.open("/mnt/workspace")
print(len(parse_dataset(config, place, describe(config, place))))
"""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Hosts]:
    (tmp_path / "shared").mkdir()
    environment = {
        "PYTHONPATH": f"{ROOT / 'platform'}:{ROOT}",
        "OMP_NUM_THREADS": "1",
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "VSE_WORKSPACE": WORKSPACE,
    }
    with Hosts(tmp_path / "hosts", tmp_path / "shared", (HEAD,), environment) as made:
        yield made


def kind(limit: int, lifecycle: str, priority: int = 0, **resources: int) -> dict[str, Any]:
    """A type of worker nodes."""
    return {
        "resources": {**resources, "object_store_memory": 100 * 2**20},
        "node_config": {},
        "min_workers": 0,
        "max_workers": limit,
        "priority": priority,
        "labels": {LIFECYCLE: lifecycle, TYPE: "gpu" if "GPU" in resources else "cpu"},
        "idle_timeout_s": IDLE,
    }


KINDS = {"steady": kind(LIMITS["steady"], "on-demand", CPU=1), "spot": kind(LIMITS["spot"], "spot", 10, CPU=1)}
GPU_KINDS = {
    "gpu": kind(1, "on-demand", CPU=2, GPU=1),
    "gpu_spot": kind(1, "spot", 10, CPU=2, GPU=1),
    "cpu": kind(2, "spot", CPU=2),
}


def cluster(workers: dict[str, Any], head_cpus: int) -> dict[str, Any]:
    """A cluster file of nodes that are processes, with types of workers as cluster.yaml has them."""
    head = {"resources": {"CPU": head_cpus}, "node_config": {}, "max_workers": 0}
    kinds: dict[str, Any] = {_HEAD_TYPE: head, **workers}
    commands = ("initialization_commands", "setup_commands", "head_setup_commands", "worker_setup_commands")
    return {
        "cluster_name": "fake",
        "max_workers": sum(kind["max_workers"] for kind in workers.values()),
        "upscaling_speed": 100.0,
        "idle_timeout_minutes": IDLE / 60,
        "provider": {
            "type": "external",
            "module": "ray.autoscaler._private.fake_multi_node.node_provider.FakeMultiNodeProvider",
            "gcs_address": f"{ADDRESS}:6379",
            "head_node_id": _FAKE,
            "launch_multiple": True,
            "use_node_id_as_ip": True,
            "disable_node_updaters": True,
            "disable_launch_config_check": True,
        },
        "auth": {},
        "docker": {},
        "head_node_type": _HEAD_TYPE,
        "available_node_types": kinds,
        **{key: [] for key in (*commands, "head_start_ray_commands", "worker_start_ray_commands")},
        "file_mounts": {},
        "cluster_synced_files": [],
        "file_mounts_sync_continuously": False,
        "rsync_exclude": [],
        "rsync_filter": [],
    }


def run(host: Hosts, command: str, timeout: float = 900) -> str:
    done = host.run(command, name=HEAD, timeout=timeout)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def launch(host: Hosts, kinds: dict[str, Any], head_cpus: int = 0, cloud: dict[str, Any] | None = None) -> None:
    """The head of a cluster that has no worker yet; `cloud`: what nodes there are to be had, if others than `kinds`."""
    for file, content in (("ray_bootstrap_config", kinds), ("cloud", kinds if cloud is None else cloud)):
        (host.home(HEAD) / f"{file}.yaml").write_text(yaml.safe_dump(cluster(content, head_cpus)))
    variables = {
        "RAY_FAKE_CLUSTER": "1",
        "RAY_enable_autoscaler_v2": "1",
        "AUTOSCALER_UPDATE_INTERVAL_S": "1",
        "RAY_CLOUD_INSTANCE_ID": _FAKE,
        "RAY_OVERRIDE_NODE_ID_FOR_TESTING": _FAKE,
        "RAY_NODE_TYPE_NAME": _HEAD_TYPE,
    }
    run(
        host,
        f"{' '.join(f'{name}={value}' for name, value in variables.items())} ray start --head --num-cpus={head_cpus} "
        f"--node-ip-address={ADDRESS} --port=6379 --autoscaling-config={HOME}/cloud.yaml",
    )


def workers(host: Hosts) -> list[dict[str, Any]]:
    """All nodes but the head that have ever been, as Ray's state API tells of them."""
    told = json.loads(run(host, "ray list nodes --detail --format json"))
    return [node for node in told if not node["is_head_node"]]


def until(met: Callable[[], bool], seconds: float, complaint: str) -> float:
    started = time.monotonic()
    while not met():
        assert time.monotonic() - started < seconds, complaint
        time.sleep(2)
    return time.monotonic() - started


def most_at_once(nodes: list[dict[str, Any]]) -> int:
    """The largest number of nodes that were there at the same time."""
    ends = [(node["start_time_ms"], 1) for node in nodes] + [(node["end_time_ms"], -1) for node in nodes]
    here = most = 0
    for _, change in sorted(ends):
        here += change
        most = max(most, here)
    return most


def brought(host: Hosts, work: Callable[[], Any]) -> list[str]:
    """What kinds of nodes came for a piece of work; those that were there are gone before."""
    until(lambda: all(node["state"] == "DEAD" for node in workers(host)), 200, "idle nodes stay")
    before = {node["node_id"] for node in workers(host)}
    work()
    came = [node["labels"] for node in workers(host) if node["node_id"] not in before]
    return sorted(f"{labels[LIFECYCLE]} {labels[TYPE]}" for labels in came)


def test_a_sweep_brings_nodes_to_the_limit_and_idle_ones_go(host: Hosts, tmp_path: Path) -> None:
    launch(host, KINDS)
    assert workers(host) == []
    said = run(host, f"python {ROOT}/jobs/preflight.py start=true")
    for kind in LIMITS:
        assert re.search(rf"worker type +{kind} +ok +a node started", said), said
    until(lambda: all(node["state"] == "DEAD" for node in workers(host)), 200, "idle nodes stay")
    before = {node["node_id"] for node in workers(host)}
    ranks = json.loads(run(host, f"python -c '{_RANKS}'").splitlines()[-1])
    assert ranks[LIFECYCLE] == "on-demand"
    (came,) = [node for node in workers(host) if node["node_id"] not in before]
    assert came["labels"][LIFECYCLE] == "on-demand"
    until(lambda: all(node["state"] == "DEAD" for node in workers(host)), 200, "an idle node stays")
    before |= {came["node_id"]}
    started = time.monotonic()
    said = run(
        host,
        f"python {ROOT}/jobs/sweep_alpha.py --preset univse_tiny sweep.seeds=0,1,2 ray.shared_workspace=true",
    )
    took = time.monotonic() - started
    assert Path(said.splitlines()[-1]).name == "summary.json"
    came = [node for node in workers(host) if node["node_id"] not in before]
    kinds = [node["labels"][LIFECYCLE] for node in came]
    assert {"spot", "on-demand"} == set(kinds), kinds  # the limit is both kinds
    gone = until(lambda: all(node["state"] == "DEAD" for node in workers(host)), 300, "idle nodes stay")
    came = [node for node in workers(host) if node["node_id"] not in before]
    assert most_at_once(came) == sum(LIMITS.values())
    first = min(came, key=lambda node: node["start_time_ms"])
    assert first["labels"][LIFECYCLE] == "spot"  # by its priority
    print(f"sweep {took:.0f} s with {len(came)} nodes, idle ones gone {gone:.0f} s after it")


def test_stages_and_trainings_bring_the_nodes_they_want_to_a_cluster_that_is_its_head(host: Hosts) -> None:
    launch(host, GPU_KINDS, head_cpus=1)
    job = f"python {ROOT}/jobs/%s.py --preset vsepp_tiny ray.shared_workspace=true %s"
    said: list[str] = []

    def refused(command: str) -> None:
        done = host.run(command, name=HEAD, timeout=600)
        said.append(done.stderr.splitlines()[-1])
        assert done.returncode == 2, done.stderr

    came = brought(host, lambda: refused(job % ("extract_features", "extraction.workers=2")))
    assert {"on-demand gpu", "spot gpu"} & set(came), came  # the first one without a driver of NVIDIA's ends the job
    assert said[0] == "extract_features: extraction: torch finds no GPU on head, on which Ray assigned one"
    came = brought(host, lambda: said.append(run(host, f"python -c '{_PARSE}'")))
    assert came == ["spot cpu"] * 2
    assert int(said[1].splitlines()[-1]) > 100

    def train(more: str) -> None:
        refused(job % ("train", f"train.gpus_per_worker=1 {more}"))

    assert brought(host, lambda: train("")) == ["on-demand gpu"]  # what is left to it is a driver of NVIDIA's
    assert said[2] == "train: train.gpus_per_worker=1: torch finds no GPU on head"
    assert brought(host, lambda: train("train.workers=2")) == []
    assert "train.workers=2: needs 2 GPUs, but the cluster can have 1 on nodes labelled vse.lifecycle" in said[3]


def test_a_sweep_ends_where_no_gpu_node_ever_comes(host: Hosts) -> None:
    """The cluster's file allows GPU nodes, of which the cloud has none, as with a quota of zero."""
    launch(host, GPU_KINDS, head_cpus=2, cloud={"cpu": GPU_KINDS["cpu"]})
    prepared = (
        "from vse.stages import pipeline; from vse.presets import preset; from vse.workspace.layout import Workspace; "
    )
    prepared += f'pipeline.prepare(preset("univse_tiny"), Workspace.open("{WORKSPACE}"), parsed=True)'
    run(host, f"python -c '{prepared}'")
    job = f"python {ROOT}/jobs/sweep_eta.py --preset univse_tiny sweep.method=random sweep.space=eta_joint"
    started = time.monotonic()
    done = host.run(
        f"RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S=20 {job} sweep.samples=2 ray.shared_workspace=true "
        "train.gpus_per_worker=1",
        name=HEAD,
        timeout=300,
    )
    assert done.returncode == 1, done.stderr
    said = done.stderr.splitlines()
    assert said[-1].startswith("sweep_eta: no node came in 20 s that could hold a trial: each needs 1 CPUs and 1 GPUs")
    assert "the cluster has 2 CPUs and 0 GPUs on 1 nodes" in said[-1]
    assert said[-1].endswith("finished work is kept, and the same command continues from there")
    (warning,) = [line for line in said if "have waited" in line]
    assert warning.endswith("the sweep ends after 20 s without any")
    print(f"ended after {time.monotonic() - started:.0f} s")


def test_lost_nodes_cost_time_and_nothing_else(host: Hosts) -> None:
    started = time.monotonic()
    told = json.loads(run(host, f"{sys.executable} -m tests.cluster.lost_nodes {WORKSPACE}").splitlines()[-1])
    done = [loss["finished"] for loss in told["losses"]]
    assert done == list(range(1, TRIALS)), done  # one more trial in the ledger at every loss
    assert [entry["state"] for entry in told["entries"]] == ["finished"] * TRIALS
    assert any(entry["attempts"] > 1 for entry in told["entries"])  # some did run on a node that was lost
    found = [{"run": entry["run"], "metrics": entry["metrics"]} for entry in told["entries"]]
    assert found == told["undisturbed"]
    print(f"{time.monotonic() - started:.0f} s, {len(done)} nodes lost, {len(told['errors'])} trials with them")


def test_a_sick_node_ends_no_sweep(host: Hosts) -> None:
    told = json.loads(run(host, f"{sys.executable} -m tests.cluster.sick_nodes {WORKSPACE}").splitlines()[-1])
    assert [entry["state"] for entry in told["entries"]] == ["finished"] * 12
    assert told["sick"] not in {entry["node"] for entry in told["entries"]}
    assert 2 <= len(told["errors"]) <= 4  # two, and what waited for a place when it was left out
    assert sum(entry["attempts"] - 1 for entry in told["entries"]) == len(told["errors"])
    assert set(told["errors"]) == {"node_fault"}
    assert told["every"]["said"] == "/scratch: no space left on device"
    assert told["every"]["tried"] < 12


def test_one_worker_trains_in_a_task_on_a_node_that_stays_and_has_the_gpu(host: Hosts) -> None:
    told = json.loads(run(host, f"{sys.executable} -m tests.cluster.gpu_nodes {WORKSPACE}").splitlines()[-1])
    assert (told["here"], told["elsewhere"]) == (0, True)
    no_place = (
        r"PlacementError: train\.workers=%d: no nodes labelled vse\.lifecycle: on-demand with 1 CPUs "
        r"and 1 GPUs for each worker started in time; see `ray status`"
    )
    for key, workers in (("one", 1), ("two", 2)):
        assert re.match(no_place % workers, told[key]), told[key]
    assert all(PATIENCE <= seconds < 3 * PATIENCE for seconds in told["waited"]), told["waited"]  # once, not each time
    assert re.fullmatch(r"InputError: train\.gpus_per_worker=1: torch finds no GPU on head", told["no driver"])
    assert told["lives"] == ["on-demand"] * 2  # it was lost once
    assert told["found"] == told["calm"]
    assert told["heard"] == [1, 2, 3, 4, 5, 6]
