"""A job on the head of a cluster that runs, as `ray submit` starts it, of which the head's raylet is killed.

On a host of its own, with its own processes, addresses and /tmp.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.hosts import WORKSPACE, Hosts, why_not
from tests.cluster.test_hosts import until
from tests.jobs.processes import ROOT

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "hosts can be made"),
]

HEAD, ADDRESS = "head", "10.77.0.11"
START = f"ray start --head --num-cpus=2 --node-ip-address={ADDRESS} --port=6379"
JOB = f"python {ROOT}/jobs/sweep_alpha.py --preset univse_tiny sweep.seeds=0"

# What Prometheus would do, which knows no token; prints the answer's status of each node and how many numbers it had.
_SCRAPE = """
import json, urllib.request
for each in json.load(open("/tmp/ray/prom_metrics_service_discovery.json")):
    for target in each["targets"]:
        with urllib.request.urlopen(f"http://{target}/metrics", timeout=10) as answer:
            print(json.dumps([answer.status, answer.read().decode().count("\\nray_")]))
"""


_DASHBOARD = """
import urllib.error, urllib.request
try:
    print(urllib.request.urlopen("http://127.0.0.1:8265/api/jobs/", timeout=10).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Hosts]:
    (tmp_path / "shared").mkdir()
    environment = {
        "PYTHONPATH": f"{ROOT / 'platform'}:{ROOT}",
        "OMP_NUM_THREADS": "1",
        "RAY_AUTH_MODE": "token",
        "RAY_ADDRESS": f"{ADDRESS}:6379",
        "RAY_USAGE_STATS_ENABLED": "0",
        "VSE_WORKSPACE": WORKSPACE,
    }
    with Hosts(tmp_path / "hosts", tmp_path / "shared", (HEAD,), environment) as made:
        yield made


def run(host: Hosts, command: str, timeout: float = 300) -> str:
    done = host.run(command, name=HEAD, timeout=timeout)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def raylet(host: Hosts) -> int:
    """The number of its process, on that host."""
    lines = [line.split() for line in run(host, "ps -eo pid=,args=").splitlines()]
    (found,) = [int(words[0]) for words in lines if words[1].endswith("/raylet/raylet")]
    return found


def _trial(host: Hosts) -> bool:
    return any("ray::ImplicitFunc" in line for line in host.processes(HEAD))


def _numbers(host: Hosts) -> int:
    asked = [json.loads(line) for line in run(host, f"python -c '{_SCRAPE}'").splitlines()]
    assert asked  # of the nodes, and of the head's own services
    assert all(status == 200 for status, _ in asked)
    return sum(numbers for _, numbers in asked)


def test_a_job_ends_with_the_raylet_of_its_host(host: Hosts) -> None:
    run(host, "ray get-auth-token --generate")
    run(host, START)
    until(lambda: _numbers(host) > 0, 90, "no numbers for Prometheus")  # for whoever reaches the port, without a token
    assert run(host, f"python -c '{_DASHBOARD}'").strip() == "401"  # what can do things wants the token

    run(host, f"exec > /dev/null 2>&1; ({JOB} > out 2> err; echo $? > status) &")
    home = host.home(HEAD)
    begun = until(lambda: (home / "status").exists() or _trial(host), 200, "no trial has started")
    assert not (home / "status").exists(), (home / "err").read_text()
    run(host, f"kill -9 {raylet(host)}")
    took = until(lambda: (home / "status").exists(), 150, "the job waits for its node for ever")
    print(f"\na trial ran after {begun:.0f} s, the job ended {took:.0f} s after its raylet")
    assert (home / "status").read_text().strip() == "1"
    assert "Ray's node process (raylet) on this machine has died" in (home / "err").read_text()
