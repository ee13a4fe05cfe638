"""One evaluation by three hosts is that of one process, also if a host is lost meanwhile: shards, and one task."""

import json
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.hosts import WORKSPACE, Hosts, why_not
from tests.jobs.processes import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "hosts can be made"),
]

NAMES = ("head", "worker1", "worker2")
DATA = "data.num_train=40 data.num_val=6 data.num_shifted=4"
ADDRESS = "10.77.0.11:6379"


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    (tmp_path / "shared").mkdir()
    environment = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled", "OMP_NUM_THREADS": "1"}
    with Hosts(tmp_path / "hosts", tmp_path / "shared", NAMES, environment) as made:
        yield made


def done(hosts: Hosts, command: str, name: str = "operator") -> str:
    """What a command printed."""
    result = hosts.run(f"cd {ROOT} && {command}", name=name, timeout=900)
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    return result.stdout


def numbers(folder: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Metrics by task; deleted, so that the next evaluation measures again."""
    files = (folder / "evaluation").glob("measures-*.json")
    written = [json.loads(file.read_text()) for file in files]
    shutil.rmtree(folder / "evaluation")
    return {each["task"]: each["metrics"] for each in written}


def counted_on(hosts: Hosts) -> set[str]:
    """The hosts of which a process has computed a task."""
    found = set[str]()
    for name in NAMES:
        logs = (hosts.folder / name / "tmp/ray").glob("session_2*/logs/worker-*.out")
        if any(":task_name:_compute" in log.read_text(errors="replace") for log in logs):
            found.add(name)
    return found


@pytest.mark.parametrize(
    ("preset", "images", "tasks"),
    [
        ("scan_t2i_avg_small", 1000, ("retrieval",)),
        ("univse_small", 40, ("retrieval", "attacks", "alpha_curve", "neighbours", "visual_parsing", "grounding")),
    ],
)
def test_three_hosts_measure_what_one_process_does(
    preset: str, images: int, tasks: tuple[str, ...], hosts: Hosts, tmp_path: Path
) -> None:
    options = f"--workspace {WORKSPACE}"
    config = f"--preset {preset} {DATA} data.num_test={images} model.dim=16 train.epochs=1"
    done(hosts, f"python jobs/train.py {options} {config}")
    (run,) = (tmp_path / "shared/runs").iterdir()
    evaluate = f"python jobs/evaluate.py {options} run={run.name} tasks={','.join(tasks)}"
    done(hosts, evaluate)
    expected = numbers(run)
    assert expected.keys() == set(tasks)

    sharded = preset.startswith("scan")
    for name, address in hosts.addresses.items():
        place = "--head --port=6379" if name == "head" else f"--address={ADDRESS}"
        cpus = 1 if sharded or name != "head" else 0  # a single task is on a host that can be lost
        done(hosts, f"ray start {place} --node-ip-address={address} --num-cpus={cpus} --num-gpus=0", name)
    on_cluster = f"RAY_ADDRESS={ADDRESS} {evaluate}"
    done(hosts, on_cluster, "head")
    assert numbers(run) == expected
    assert len(counted_on(hosts)) > (1 if sharded else 0)

    lost = list[str]()

    def lose_one() -> None:
        while not lost:
            for name in NAMES[1:]:
                if any("ray::_compute" in line for line in hosts.processes(name)):
                    hosts.run("pkill -9 raylet; pkill -9 ray::_compute", name=name)
                    lost.append(name)
                    return
            time.sleep(0.2)

    losing = threading.Thread(target=lose_one, daemon=True)
    losing.start()
    done(hosts, on_cluster, "head")
    assert lost
    assert numbers(run) == expected
