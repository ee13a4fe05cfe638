"""The batch file of Slurm on two hosts of one machine, with Slurm's own daemons: a sweep is preempted and continues."""

import os
import re
import shlex
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cluster.hosts import WORKSPACE, Hosts, why_not
from tests.cluster.test_hosts import results
from tests.jobs.processes import ROOT, run
from tests.waiting import wait_for

FILE = ROOT / "slurm" / "sweep.sbatch"
NAMES = ("node1", "node2")
SWEEP = ("sweep", "alpha", "--preset", "univse_tiny", "sweep.seeds=0,1", "train.epochs=4")
PROGRAMS = ("slurmctld", "slurmd", "munged")

_CONFIGURATION = """
ClusterName=vse
SlurmctldHost=node1({node1})
SlurmUser=root
SlurmdUser=root
AuthInfo=cred_expire=5
StateSaveLocation=/tmp/slurmctld
SlurmdSpoolDir=/tmp/slurmd
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmctldLogFile=/tmp/slurmctld.log
SlurmdLogFile=/tmp/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
NodeName=node1 NodeAddr={node1} CPUs=2
NodeName=node2 NodeAddr={node2} CPUs=2
PartitionName=low Nodes=ALL Default=YES PriorityTier=1 GraceTime=200
PartitionName=high Nodes=ALL PriorityTier=10
"""
_MUNGE = (
    "mkdir -p /run/munge /tmp/slurmctld /tmp/slurmd && munged --force --key-file=/mnt/etc/munge.key --num-threads=2 "
    "--socket=/run/munge/munge.socket.2 --log-file=/tmp/munged.log --pid-file=/run/munged.pid --seed-file=/tmp/seed"
)


def without_slurm() -> str:
    """The reason why Slurm cannot run here; empty if it can."""
    missing = [name for name in PROGRAMS if not (Path("/usr/sbin") / name).exists()]
    return why_not() or (f"not installed: {', '.join(missing)} (Debian: slurm-wlm, munge)" if missing else "")


def directives() -> dict[str, str]:
    """The options that the file gives to sbatch."""
    found = re.findall(r"^#SBATCH --([\w-]+)(?:=(.*))?$", FILE.read_text(), re.MULTILINE)
    return dict(found)


def test_a_preempted_job_is_queued_again_and_has_time_to_stop() -> None:
    options = directives()
    assert "requeue" in options
    parts = re.fullmatch(r"(\w+):(\w+)@(\d+)", options["signal"])
    assert parts is not None
    shell, signal, seconds = parts.groups()
    assert (shell, signal) == ("B", "USR1")
    (patience,) = re.findall(r"for _ in \$\(seq (\d+)\); do\n    if", FILE.read_text())
    assert int(patience) < int(seconds)
    assert options["ntasks-per-node"] == "1"
    assert options["open-mode"] == "append"  # or the log of the first part is lost


def test_nodes_may_copy_their_logs_before_they_are_killed() -> None:
    """srun sends SIGKILL to its tasks when it gets SIGTERM; scancel sends the signal itself."""
    text = FILE.read_text()
    assert text.index("scancel --signal=TERM") < text.index("kill $step 2>")


@pytest.mark.process
def test_it_is_shell() -> None:
    subprocess.run(["bash", "-n", str(FILE)], check=True, timeout=20)


@pytest.mark.process
@pytest.mark.parametrize("ended", ["by itself", "by Slurm", "before Ray started"])
def test_logs_of_a_node_are_copied_until_its_ray_has_ended(
    ended: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path is limited, a relative one short
    (node,) = re.findall(r"^export node='(.*?)'$", FILE.read_text(), re.MULTILINE | re.DOTALL)
    (tmp_path / "session_latest").symlink_to("earlier")
    ready = "touch starts" if ended == "before Ray started" else "until [ -e up ]; do /bin/sleep 0.05; done"
    waits = (
        "trap 'exit 7' TERM; touch starts; while true; do /bin/sleep 0.05; done" if ended == "by Slurm" else "exit 7"
    )
    copies = "trap 'touch copied; exit' TERM; touch up; while true; do /bin/sleep 0.05; done"
    programs = {"ray": f"{ready}; {waits}", "python": f'[ "$*" = "-m vse.cluster.node_logs" ] && {{ {copies}; }}'}
    for name, does in (programs | {"sleep": "exec /bin/sleep 0.05"}).items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{does}\n")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_NUM_NODES": "2", "SLURM_CPUS_ON_NODE": "2"}
    node = node.replace("/tmp/ray/session_latest/sockets/raylet", "raylet").replace("/tmp/ray/", "")
    with socket.socket(socket.AF_UNIX) as raylet:
        if ended != "before Ray started":
            raylet.bind("raylet")
        process = subprocess.Popen(["bash", "-c", node, "vse", "train"], env=environment)
        with process:
            try:
                if ended == "by Slurm":
                    wait_for(tmp_path / "starts")
                    process.terminate()
                assert process.wait(timeout=20) == 7
            finally:
                process.kill()
    assert not (tmp_path / "session_latest").is_symlink()  # of an earlier job, whose logs are no longer of interest
    assert (tmp_path / "copied").exists() is (ended != "before Ray started")


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    """Two nodes of a Slurm cluster; the first one also runs its controller."""
    (tmp_path / "shared").mkdir()
    environment = {"TERM": "dumb", "SLURM_CONF": f"{WORKSPACE}/slurm.conf", "VSE_WORKSPACE": f"{WORKSPACE}/w"}
    with Hosts(tmp_path / "hosts", tmp_path / "shared", NAMES, environment) as made:
        (tmp_path / "shared" / "slurm.conf").write_text(_CONFIGURATION.format(**made.addresses))
        (tmp_path / "shared" / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        key = os.urandom(128)
        for name in NAMES:
            file = made.folder / name / "etc" / "munge.key"
            file.write_bytes(key)
            file.chmod(0o400)
            (made.home(name) / ".ray").mkdir()
            (made.home(name) / ".ray" / "auth_token").write_text("0123456789abcdef" * 4)
            on(made, f"ip route add default dev eth0 && {_MUNGE}", name)  # Ray takes the address that leads outside
        on(made, "slurmctld")
        for name in NAMES:
            on(made, "slurmd", name)
        wait(lambda: "2 idle" in re.sub(" +", " ", on(made, "sinfo --partition=low")), 60, "the nodes are not idle")
        yield made


def on(hosts: Hosts, command: str, name: str = NAMES[0]) -> str:
    """What a command on a node prints."""
    done = hosts.run(command, name=name, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def wait(met: Callable[[], bool], seconds: float, complaint: str) -> None:
    """Until a condition is met."""
    deadline = time.monotonic() + seconds
    while not met():
        assert time.monotonic() < deadline, complaint
        time.sleep(1)


def submit(hosts: Hosts, *command: str) -> str:
    """The number of a job that runs a command of `vse` by the batch file."""
    line = f"cd {WORKSPACE} && sbatch --parsable --gpus-per-node=0 {FILE} {shlex.join(command)}"
    return on(hosts, line).strip()


def job(hosts: Hosts, number: str) -> dict[str, str]:
    """What the controller knows of a job."""
    return dict(re.findall(r"(\w+)=(\S+)", on(hosts, f"scontrol show job {number}")))


def end(hosts: Hosts, number: str, seconds: float) -> dict[str, str]:
    """A job at its end."""
    wait(lambda: job(hosts, number)["JobState"] not in ("PENDING", "RUNNING", "COMPLETING"), seconds, "no end")
    return job(hosts, number)


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.timeout(2400)
@pytest.mark.skipif(bool(without_slurm()), reason=without_slurm() or "Slurm can run")
def test_a_sweep_that_is_preempted_continues_on_both_nodes(hosts: Hosts, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    sweep = submit(hosts, *SWEEP)
    log = shared / f"vse-{sweep}.log"
    journals = (shared / "w" / "runs").glob
    wait(lambda: any('"metrics"' in file.read_text() for file in journals("*/journal.jsonl")), 900, "no epoch ended")
    assert not list((shared / "w").glob("sweeps/*/results.json"))
    urgent = on(hosts, "sbatch --parsable --partition=high --nodes=2 --exclusive --wrap='sleep 3'").strip()
    assert end(hosts, urgent, 300)["JobState"] == "COMPLETED"
    assert "slurm: stopping the command" in log.read_text()
    done = end(hosts, sweep, 1200)
    assert (done["JobState"], done["Restarts"]) == ("COMPLETED", "1"), log.read_text()
    alone = run("sweep_alpha", tmp_path / "alone", *SWEEP[2:], timeout=900)
    assert alone.returncode == 0, alone.stderr
    assert results(shared / "w") == results(tmp_path / "alone")
    logs = (hosts.folder / "node2" / "tmp/ray").glob("session_2*/logs/worker-*.out")
    assert any(":actor_name:" in file.read_text(errors="replace") for file in logs)  # the second node has worked
    copied = {(file.parents[1].name, file.parent.name) for file in (shared / "w" / "logs").glob("*/*/raylet.out")}
    assert {name for _, name in copied} == set(NAMES)
    assert len(copied) == 4  # two sessions, before and after the preemption
    assert not [line for name in NAMES for line in hosts.processes(name) if "node_logs" in line]
    wrong = submit(hosts, "sweep", "alpha", "sweep.seed=0")
    assert end(hosts, wrong, 300)["ExitCode"] == "2:0"
    assert "did you mean sweep.seeds?" in (shared / f"vse-{wrong}.log").read_text()
