"""The on-prem cluster file on three real hosts of one machine: `ray up`, `submit`, `exec`, `down`, as an operator types
them. The sweep's numbers are those of one host, and every host has worked for them."""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.hosts import HOME, WORKSPACE, Hosts, why_not
from tests.jobs.processes import ROOT, run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "hosts can be made"),
]

NAMES = ("head", "worker1", "worker2")
SWEEP = ("--preset", "univse_tiny", "sweep.seeds=0,1")
# in double precision, of which an order of sums moves the last digits only
TRAINING = ("--preset", "vsepp_tiny", "train.precision=float64", "train.epochs=2")

# A host as its administrator leaves it: a virtual environment that finds the packages of the one these tests run in, as
# no index can be reached from here. The cluster file's own `pip install` then checks versions and installs the package.
_IMAGE = """
{python} -m venv --without-pip venv
echo {packages} > $(echo venv/lib/python3*/site-packages)/image.pth
for name in ray mlflow gunicorn uvicorn; do
  sed '1s|.*|#!{home}/venv/bin/python|' {programs}/$name > venv/bin/$name
  chmod +x venv/bin/$name
done
echo 'export PIP_NO_INDEX=1 PIP_NO_BUILD_ISOLATION=0' > .bashrc
"""


def image() -> str:
    """The commands that make one."""
    programs = Path(sys.executable).parent
    packages = next(path for path in sys.path if path.endswith("site-packages"))
    return _IMAGE.format(python=sys.executable, packages=packages, home=HOME, programs=programs)


def cluster_file(hosts: Hosts) -> str:
    """cluster-onprem.yaml with the five lines changed that it says are the operator's."""
    config = yaml.safe_load((ROOT / "cluster-onprem.yaml").read_text())
    head, *workers = hosts.addresses.values()
    config["provider"].update(head_ip=head, worker_ips=workers)
    config["auth"] = {"ssh_user": "root", "ssh_private_key": "~/key"}
    assert sum("/shared/vse" in command for command in config["setup_commands"]) == 1
    config["setup_commands"] = [command.replace("/shared/vse", WORKSPACE) for command in config["setup_commands"]]
    return yaml.safe_dump(config)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    (tmp_path / "shared").mkdir()
    environment = {"TERM": "dumb", "RAY_USAGE_STATS_ENABLED": "0", "OMP_NUM_THREADS": "1"}
    with Hosts(tmp_path / "hosts", tmp_path / "shared", NAMES, environment) as made:
        for name in NAMES:
            prepared = made.run(image(), name=name)
            assert prepared.returncode == 0, prepared.stderr
        shutil.copy(made.folder / "key", made.home("operator") / "key")
        (made.home("operator") / "cluster.yaml").write_text(cluster_file(made))
        yield made


def ray(hosts: Hosts, command: str, *, timeout: float = 600) -> str:
    """`ray …` on the operator's machine, from the repository; what it printed."""
    done = hosts.run(f"cd {ROOT} && ray {command}", timeout=timeout)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def until(met: Callable[[], bool], seconds: float, complaint: str) -> float:
    """Seconds until it was met."""
    started = time.monotonic()
    while not met():
        assert time.monotonic() - started < seconds, complaint
        time.sleep(2)
    return time.monotonic() - started


def actors(hosts: Hosts, name: str) -> set[str]:
    """The actors that have lived on a host, from what Ray wrote there."""
    logs = (hosts.folder / name / "tmp/ray").glob("session_2*/logs/worker-*.out")
    lines = (line for log in logs for line in log.read_text(errors="replace").splitlines())
    return {line.removeprefix(":actor_name:") for line in lines if line.startswith(":actor_name:")}


def results(workspace: Path) -> tuple[Any, Any]:
    """(results.json, table of the summary) of the only sweep of a workspace."""
    (folder,) = (workspace / "sweeps").glob("alpha-*")
    summary = json.loads((folder / "summary.json").read_text())
    return json.loads((folder / "results.json").read_text()), summary["details"]["table"]


def losses(workspace: Path) -> list[float]:
    """After each epoch of the only training in double precision."""
    trained = [path.parent for path in (workspace / "runs").glob("*/config.json")]
    (one,) = (
        folder
        for folder in trained
        if json.loads((folder / "config.json").read_text())["train"]["precision"] == "float64"
    )
    return [row["train/sent"] for row in json.loads((one / "result.json").read_text())["history"]]


def test_work_over_three_hosts_is_that_of_one(hosts: Hosts, tmp_path: Path) -> None:
    """A sweep, trial by trial, and one training whose workers are on several of them."""
    took: dict[str, float] = {}

    def timed(what: str, command: str) -> str:
        started = time.monotonic()
        said = ray(hosts, command)
        took[what] = time.monotonic() - started
        return said

    timed("token", "get-auth-token --generate")
    timed("up", "up -y ~/cluster.yaml")
    took["workers joined"] = until(
        lambda: ray(hosts, "exec ~/cluster.yaml 'ray list nodes --format json'").count('"state": "ALIVE"') == 3,
        300,
        "the workers did not join",
    )
    said = timed("preflight", "submit ~/cluster.yaml jobs/preflight.py")
    for address in hosts.addresses.values():
        assert address in said
    assert "not checked, 0 problems" in said
    timed("extract", "submit ~/cluster.yaml jobs/extract_features.py -- --preset univse_tiny extraction.workers=3")
    extracted = {name: "MapWorker(MapBatches(_Extractor))" in actors(hosts, name) for name in NAMES}
    assert sum(extracted.values()) > 1, extracted

    said = timed("sweep", f"submit ~/cluster.yaml jobs/sweep_alpha.py -- {' '.join(SWEEP)}")
    assert f"{WORKSPACE}/sweeps/alpha-univse_tiny-" in said
    worked = {name: "ImplicitFunc" in actors(hosts, name) for name in NAMES}
    assert sum(worked.values()) > 1, worked
    workers = (os.cpu_count() or 1) + 1  # more than one host has room for
    timed("training", f"submit ~/cluster.yaml jobs/train.py -- {' '.join(TRAINING)} train.workers={workers}")
    joined = {name: "RayTrainWorker" in actors(hosts, name) for name in NAMES}
    assert sum(joined.values()) > 1, joined
    heard = timed("exec", "exec ~/cluster.yaml 'grep -c /mlflow/runs/create ~/mlflow/server.log'")
    assert any(line.strip().isdigit() and int(line) > 4 for line in heard.splitlines()), heard  # trials, trainings

    timed("down", "down -y ~/cluster.yaml")
    assert not [line for line in hosts.processes("head") if "raylet" in line or "gcs_server" in line]
    took["workers gone"] = until(
        lambda: not any("raylet/raylet" in line for name in NAMES for line in hosts.processes(name)),
        300,
        "workers outlive the head",
    )
    until(lambda: not any("node_logs" in line for name in NAMES for line in hosts.processes(name)), 150, "logs go on")
    (session,) = (tmp_path / "shared" / "logs").iterdir()
    assert {path.name for path in session.iterdir()} == set(NAMES)
    assert all((session / name / "raylet.out").stat().st_size for name in NAMES)
    started = time.monotonic()
    alone = run("sweep_alpha", tmp_path / "alone", *SWEEP, timeout=900)
    took["the same sweep on one host"] = time.monotonic() - started
    assert alone.returncode == 0, alone.stderr
    assert results(tmp_path / "shared") == results(tmp_path / "alone")
    alone = run("train", tmp_path / "alone", *TRAINING, timeout=900)
    assert alone.returncode == 0, alone.stderr
    assert losses(tmp_path / "shared") == pytest.approx(losses(tmp_path / "alone"), rel=1e-8)
    print("\n".join(f"{what}: {seconds:.0f} s" for what, seconds in took.items()))
