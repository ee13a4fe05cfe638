"""The batch file of Slurm on two hosts of one machine, with `srun` and `scontrol` played by scripts."""

import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.hosts import HOME, WORKSPACE, Hosts, why_not
from tests.cluster.test_hosts import results
from tests.jobs.processes import ROOT, run

FILE = ROOT / "slurm" / "sweep.sbatch"
NAMES = ("node1", "node2")
SWEEP = ("--preset", "univse_tiny", "sweep.seeds=0,1", "train.epochs=4")

# Slurm starts a task on every node, with the environment of the batch script, and ends with the worst status.
_SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
command="$(export -p); export HOME={home}; $(printf '%q ' "$@")"
for address in {addresses}; do
  ssh -n -i {workspace}/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \\
    root@$address "$command" & tasks+=($!)
done
status=0
for task in ${{tasks[@]}}; do wait $task || status=$?; done
exit $status
"""
_SCONTROL = "#!/bin/bash\necho $* >> {workspace}/scontrol\n"


def directives() -> dict[str, str]:
    """The options that the file gives to sbatch."""
    found = re.findall(r"^#SBATCH --([\w-]+)(?:=(.*))?$", FILE.read_text(), re.MULTILINE)
    return dict(found)


def test_a_preempted_job_is_queued_again_and_has_time_to_stop() -> None:
    options = directives()
    assert "requeue" in options
    shell, signal, seconds = re.fullmatch(r"(\w+):(\w+)@(\d+)", options["signal"]).groups()  # type: ignore[union-attr]
    assert (shell, signal) == ("B", "USR1")
    (patience,) = re.findall(r"for _ in \$\(seq (\d+)\); do\n    if", FILE.read_text())
    assert int(patience) < int(seconds)
    assert options["ntasks-per-node"] == "1"
    assert options["open-mode"] == "append"  # or the log of the first part is lost


@pytest.mark.process
def test_it_is_shell() -> None:
    subprocess.run(["bash", "-n", str(FILE)], check=True, timeout=20)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    (tmp_path / "shared" / "bin").mkdir(parents=True)
    slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_CPUS_ON_NODE": "2", "SLURM_GPUS_ON_NODE": "0"}
    environment = {"TERM": "dumb", "VSE_WORKSPACE": f"{WORKSPACE}/w", **slurm}
    with Hosts(tmp_path / "hosts", tmp_path / "shared", NAMES, environment) as made:
        values = {"home": HOME, "workspace": WORKSPACE, "addresses": " ".join(made.addresses.values())}
        for name, text in (("srun", _SRUN), ("scontrol", _SCONTROL)):
            (tmp_path / "shared" / "bin" / name).write_text(text.format(**values))
            (tmp_path / "shared" / "bin" / name).chmod(0o755)
        shutil.copy(made.folder / "key", tmp_path / "shared" / "key")
        (tmp_path / "shared" / "key").chmod(0o600)
        for name in NAMES:
            (made.home(name) / ".ray").mkdir()
            (made.home(name) / ".ray" / "auth_token").write_text("0123456789abcdef" * 4)
            route = made.run("ip route add default dev eth0", name=name)  # Ray takes the address that leads outside
            assert route.returncode == 0, route.stderr
        yield made


def batch(hosts: Hosts, command: tuple[str, ...], *, signal_when: str = "") -> subprocess.CompletedProcess[str]:
    """The batch file on the first host, as sbatch starts it; USR1 is sent once the shell condition is met."""
    script = f"export PATH={WORKSPACE}/bin:$PATH; bash {FILE} {shlex.join(command)} > {WORKSPACE}/log 2>&1"
    if signal_when:
        met = f"until {signal_when} || ! kill -0 $! 2> /dev/null; do sleep 0.2; done"
        script = script.replace("bash ", "exec bash ", 1)
        script = f"true; ({script}) & {met}; kill -USR1 $!; wait $!"  # `cd && (...) &` would be one more shell
    return hosts.run(script, name="node1", timeout=900)


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(2400)
@pytest.mark.skipif(bool(why_not()), reason=why_not() or "hosts can be made")
def test_a_sweep_that_is_preempted_continues_on_both_nodes(hosts: Hosts, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    stopped = batch(hosts, ("sweep", "alpha", *SWEEP), signal_when=f"grep -qs epoch {WORKSPACE}/w/runs/*/journal.jsonl")
    log = (shared / "log").read_text()
    assert stopped.returncode == 0, log + stopped.stderr
    assert "slurm: stopping the command" in log
    assert (shared / "scontrol").read_text() == "requeue 7\n"
    assert not list((shared / "w").glob("sweeps/*/results.json"))
    deadline = time.monotonic() + 200
    while any("raylet/raylet" in line for name in NAMES for line in hosts.processes(name)):
        assert time.monotonic() < deadline, "a worker outlives the head"
        time.sleep(2)
    continued = batch(hosts, ("sweep", "alpha", *SWEEP))
    log = (shared / "log").read_text()
    assert continued.returncode == 0, log + continued.stderr
    alone = run("sweep_alpha", tmp_path / "alone", *SWEEP, timeout=900)
    assert alone.returncode == 0, alone.stderr
    assert results(shared / "w") == results(tmp_path / "alone")
    logs = (hosts.folder / "node2" / "tmp/ray").glob("session_2*/logs/worker-*.out")
    assert any(":actor_name:" in log.read_text(errors="replace") for log in logs)  # the second node has worked
    wrong = batch(hosts, ("sweep", "alpha", "sweep.seed=0"))
    assert wrong.returncode == 2, (shared / "log").read_text()
    assert "did you mean sweep.seeds?" in (shared / "log").read_text()
