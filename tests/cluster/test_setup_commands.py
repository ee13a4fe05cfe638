"""The shell commands of both cluster files, run where that takes no cloud: a host's environment and its settings."""

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def config() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "cluster.yaml").read_text())


@pytest.fixture
def onprem() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "cluster-onprem.yaml").read_text())


@pytest.mark.process
@pytest.mark.parametrize("file", ["config", "onprem"])
def test_commands_are_shell(file: str, request: pytest.FixtureRequest) -> None:
    config = request.getfixturevalue(file)
    for key in [key for key in config if key.endswith("_commands")]:
        for command in config[key]:
            done = subprocess.run(["bash", "-n", "-c", command], capture_output=True, text=True, check=False)
            assert done.returncode == 0, (key, command, done.stderr)


def _set_up(commands: list[str], home: Path, python: str) -> tuple[int, str, list[str]]:
    """(status, what was said, calls of `python3`) of commands on a host whose `python3` is the script `python`."""
    programs, calls = home / "programs", home / "calls"
    programs.mkdir(exist_ok=True)
    calls.write_text("")
    (programs / "python3").write_text(f'#!/bin/bash\necho "$*" >> {calls}\n{python}\n')
    (programs / "python3").chmod(0o755)
    environment = {"HOME": str(home), "PATH": f"{programs}:{os.environ['PATH']}"}
    one_by_one = ["bash", "-e", "-c", "\n".join(commands)]
    done = subprocess.run(one_by_one, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr, calls.read_text().splitlines()


@pytest.mark.process
def test_a_host_without_venv_is_told_before_anything_is_made(onprem: dict[str, Any], tmp_path: Path) -> None:
    """Debian's `venv --help` works without the package; what is missing there is ensurepip."""
    commands = onprem["setup_commands"][:3]
    lacking = "case $* in *ensurepip*) exit 1;; *) exit 0;; esac"
    assert _set_up(commands, tmp_path, lacking) == (1, "this host needs python3-venv\n", ["-c import ensurepip, venv"])


@pytest.mark.process
def test_a_host_that_shares_its_home_is_told_before_anything_is_made(onprem: dict[str, Any], tmp_path: Path) -> None:
    """Workers would rewrite the settings of the head, MLflow's address among them, and install into one environment."""
    done = subprocess.run(
        ["unshare", "--mount", "bash", "-c", f"mount -t tmpfs nas:/home {tmp_path} && cd {tmp_path} && {SET_UP}"],
        env={**os.environ, "HOME": str(tmp_path), "COMMANDS": "\n".join(onprem["setup_commands"])},
        capture_output=True,
        text=True,
        check=False,
    )
    if "mount: " in done.stderr or "unshare: " in done.stderr:
        pytest.skip("mounting is not allowed here")
    assert done.returncode == 1
    assert done.stdout.startswith(f"the home folder of {socket.gethostname()} is on a network file system; ")
    assert done.stdout.endswith("\nleft: .\n")


SET_UP = 'bash -e -c "$COMMANDS"; status=$?; echo left: $(find . -maxdepth 2); exit $status'


@pytest.mark.process
@pytest.mark.parametrize("file", ["config", "onprem"])
@pytest.mark.parametrize(("pip", "made"), [(None, True), (1, True), (0, False)])
def test_a_half_made_environment_is_made_again(
    file: str, pip: int | None, made: bool, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    commands = [c for c in request.getfixturevalue(file)["setup_commands"] if "-m venv" in c]
    if pip is not None:
        program = tmp_path / "venv" / "bin" / "python"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/bash\nexit {pip}\n")
        program.chmod(0o755)
    status, said, calls = _set_up(commands, tmp_path, "exit 0")
    assert (status, said) == (0, "")
    assert calls == ([f"-m venv --clear {tmp_path}/venv"] if made else [])


@pytest.mark.process
def test_the_environment_file_says_what_it_should(config: dict[str, Any], tmp_path: Path) -> None:
    """Run the command that writes it, with a stand-in for the account number, and read the result back."""
    (command,) = [c for c in config["setup_commands"] if "printf" in c]
    command = re.sub(r"ACCOUNT=\$\(.*?\)\"\) &&", "ACCOUNT=123456789012 &&", command)
    assert "123456789012" in command
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    subprocess.run(["bash", "-c", command], env=environment, check=True)
    told = subprocess.run(
        [
            "bash",
            "-c",
            "source ~/.vse_environment && echo $VSE_WORKSPACE $VSE_ACCOUNT $MLFLOW_S3_EXPECTED_BUCKET_OWNER "
            "$AWS_REGION $AWS_DEFAULT_REGION "
            "$AWS_METADATA_SERVICE_TIMEOUT $AWS_METADATA_SERVICE_NUM_ATTEMPTS $RAY_AUTH_MODE $PATH",
        ],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    workspace, *owners, region, default, timeout, attempts, mode, path = told.split()
    assert (workspace, mode) == ("s3://vse-123456789012-us-west-2/workspace", "token")
    assert owners == ["123456789012", "123456789012"]
    assert [region, default, timeout, attempts] == ["us-west-2", "us-west-2", "5", "10"]
    assert path.startswith(f"{tmp_path}/venv/bin:")


@pytest.mark.process
@pytest.mark.parametrize(
    ("ray", "minutes"), [("0" * 45, 45), ("0" * 44 + "1" + "0" * 45, 90), ("1" * 30 + "0" * 45, 75)]
)
def test_a_worker_without_ray_ends_itself(config: dict[str, Any], tmp_path: Path, ray: str, minutes: int) -> None:
    """`ray`: whether a raylet runs, minute by minute. Its script returns at once, or the machine would not go on
    booting."""
    kinds = config["available_node_types"]
    (script,) = {kind["node_config"].get("UserData") for name, kind in kinds.items() if name != "head"}
    assert script.startswith("#!/bin/bash\n")
    asleep, over = tmp_path / "asleep", tmp_path / "over"
    asleep.touch()
    programs = {
        "sleep": f'[ "$*" = 60 ] && echo >> {asleep}',
        "pgrep": f'states={ray}; [ "$*" = "-x raylet" ] && [ "${{states:$(($(wc -l < {asleep}) - 1)):1}}" = 1 ]',
        "shutdown": f'echo "$*" > {over}.new && mv {over}.new {over}',
    }
    for name, does in programs.items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{does}\n")
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    subprocess.run(["bash", "-c", script], env={"PATH": path}, check=True, capture_output=True, timeout=30)
    began = time.monotonic()
    while not over.exists():
        assert time.monotonic() - began < 60
        time.sleep(0.05)
    assert over.read_text() == "-h now\n"
    assert len(asleep.read_text().splitlines()) == minutes


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Callable[[dict[str, Any]], list[str]]]:
    """Run the command that starts MLflow, with stand-ins; returns the calls of `mlflow` until it has been up three
    times, of which it ends twice."""
    (tmp_path / ".vse_environment").write_text(
        "export VSE_WORKSPACE='s3://b/w?endpoint_override=host:9000&scheme=http'\n"
    )
    stays = "touch up; while true; do /bin/sleep 0.05; done"
    server = f'cut -d" " -f5 /proc/$$/stat > group; echo "$*" >> calls; [ $(wc -l < calls) -lt 3 ] || {{ {stays}; }}'
    programs = {"mlflow": server, "python": "false", "sleep": "exec /bin/sleep 0.05"}  # no other server answers
    (tmp_path / "bin").mkdir()
    for name, does in programs.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{does}\n")
        (tmp_path / "bin" / name).chmod(0o755)

    def start(config: dict[str, Any]) -> list[str]:
        (command,) = [each for each in config["head_start_ray_commands"] if "mlflow server" in each]
        environment = {"HOME": str(tmp_path), "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
        for _ in range(2):  # as `ray up` on a cluster that runs
            subprocess.run(["bash", "-c", command], env=environment, cwd=tmp_path, check=True, timeout=10)
        wait_for(tmp_path / "up")
        return (tmp_path / "calls").read_text().splitlines()

    yield start
    os.killpg(int((tmp_path / "group").read_text()), signal.SIGKILL)


@pytest.mark.process
@pytest.mark.parametrize("file", ["config", "onprem"])
def test_mlflow_is_started_again_and_once(
    file: str, request: pytest.FixtureRequest, serving: Callable[[dict[str, Any]], list[str]]
) -> None:
    calls = serving(request.getfixturevalue(file))
    assert len(calls) == 3
    assert {call.rpartition(" ")[2] for call in calls} == {"s3://b/w/mlflow"}  # MLflow knows no options of an address


@pytest.mark.process
def test_a_workspace_on_another_s3_server_is_kept_as_written(onprem: dict[str, Any], tmp_path: Path) -> None:
    address = "s3://b/w?endpoint_override=host:9000&scheme=http"
    (command,) = [c.replace("/shared/vse", address) for c in onprem["setup_commands"] if "printf" in c]
    environment = {"HOME": str(tmp_path), "PATH": os.environ["PATH"]}
    both = f'{command}\nsource ~/.vse_environment; echo "$VSE_WORKSPACE"'
    done = subprocess.run(["bash", "-c", both], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{address}\n"


@pytest.mark.process
@pytest.mark.parametrize("file", ["config", "onprem"])
def test_modules_of_an_earlier_build_are_not_installed(
    file: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    (command,) = [c for c in request.getfixturevalue(file)["setup_commands"] if "pip install" in c]
    build, python = tmp_path / "vse" / "build" / "lib", tmp_path / "venv" / "bin" / "python"
    for folder in (build, python.parent):
        folder.mkdir(parents=True)
    python.write_text("#!/bin/bash\necho $(ls ~/vse)\n")
    python.chmod(0o755)
    assert _set_up([command], tmp_path, "exit 1") == (0, "\n", [])


@pytest.mark.process
@pytest.mark.parametrize("repository", [False, True])
def test_sources_do_not_stay_on_a_worker(onprem: dict[str, Any], tmp_path: Path, repository: bool) -> None:
    """Ray copies to workers and removes nothing there. A worker may be the operator's own machine."""
    (tmp_path / "vse" / "platform").mkdir(parents=True)
    if repository:
        (tmp_path / "vse" / ".git").mkdir()
    assert _set_up(onprem["worker_setup_commands"], tmp_path, "exit 1") == (0, "", [])
    assert (tmp_path / "vse" / "platform").exists() is repository
