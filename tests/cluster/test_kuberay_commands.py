"""The containers next to Ray in a pod of Kubernetes: what they run is started again, and ends with the pod."""

import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
SOCKET = "/tmp/ray/session_latest/sockets/raylet"
Start = Callable[[str, str], subprocess.Popen[bytes]]


def command_of(container: str) -> str:
    """The shell command of a container of the head."""
    spec = yaml.safe_load((ROOT / "kuberay" / "cluster.yaml").read_text())["spec"]
    containers = spec["headGroupSpec"]["template"]["spec"]["containers"]
    (command,) = [each["command"] for each in containers if each["name"] == container]
    assert command[:2] == ["bash", "-c"]
    return command[2]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start a container's command with a script in place of its program; pauses take no time."""
    monkeypatch.chdir(tmp_path)  # a socket's path is limited, a relative one short
    processes = list[subprocess.Popen[bytes]]()

    def run(container: str, script: str) -> subprocess.Popen[bytes]:
        programs = {"python" if container == "logs" else "mlflow": f'echo "$*" >> calls\n{script}', "sleep": ""}
        for name, text in programs.items():
            (tmp_path / name).write_text(f"#!/bin/bash\n{text}\n")
            (tmp_path / name).chmod(0o755)
        environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        environment["VSE_WORKSPACE"] = "s3://b/w?endpoint_override=host:9000&scheme=http"
        command = command_of(container).replace(SOCKET, "raylet")
        processes.append(subprocess.Popen(["bash", "-c", command], env=environment))
        return processes[-1]

    yield run
    for process in processes:
        process.kill()
        process.wait()


def calls() -> list[str]:
    file = Path("calls")
    return file.read_text().splitlines() if file.exists() else []


FAILS_TWICE = "[ $(wc -l < calls) -ge 3 ]"
STAYS = "trap 'echo ended > end; exit 0' TERM; touch up; while true; do /bin/sleep 0.05; done"


@pytest.mark.process
def test_copies_of_logs_begin_with_ray_and_are_tried_again(start: Start) -> None:
    process = start("logs", FAILS_TWICE)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    assert calls() == []
    with socket.socket(socket.AF_UNIX) as raylet:
        raylet.bind("raylet")
        assert process.wait(20) == 0  # Ray has ended, so the pod may end
    assert calls() == ["-m vse.cluster.node_logs"] * 3


@pytest.mark.process
def test_copies_of_logs_end_with_the_pod(start: Start) -> None:
    with socket.socket(socket.AF_UNIX) as raylet:
        raylet.bind("raylet")
    process = start("logs", STAYS)
    wait_for(Path("up"))
    process.terminate()
    assert process.wait(20) == 0
    assert Path("end").read_text() == "ended\n"  # it had time for the last copy


@pytest.mark.process
def test_a_pod_whose_ray_never_started_ends(start: Start) -> None:
    process = start("logs", "exit 0")
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    process.terminate()
    assert process.wait(20) == 0


@pytest.mark.process
def test_a_server_that_ends_is_started_again(start: Start) -> None:
    process = start("mlflow", f"{FAILS_TWICE} || exit 0\n{STAYS}")
    wait_for(Path("up"))
    assert len(calls()) == 3
    assert calls()[0].endswith("--artifacts-destination s3://b/w/mlflow")  # MLflow knows no options of an address
    process.terminate()
    assert process.wait(20) == 0
    assert Path("end").read_text() == "ended\n"
