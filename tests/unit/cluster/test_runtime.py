"""Starting and ending Ray, refusing impossible requests, seeds and threads."""

import contextlib
import json
import logging
import os
import subprocess
import sys
import textwrap
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.unit.cluster.test_placement import LAUNCHED
from vse.cluster import runtime
from vse.cluster.runtime import Config, cluster_address, prepare_environment
from vse.errors import InputError, PlacementError
from vse.workspace import provenance as environment

ROOT = Path(__file__).resolve().parents[3]


pytestmark = pytest.mark.usefixtures("bare_environment")


def test_a_laptop_starts_its_own_ray_and_a_launched_head_joins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert cluster_address(Config()) is None
    assert cluster_address(Config(address="10.0.0.4:6379")) == "10.0.0.4:6379"
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "ray_bootstrap_config.yaml").write_text("cluster_name: vse\n")
    assert cluster_address(Config()) == "auto"
    assert cluster_address(Config(address="local")) is None
    os.environ["RAY_ADDRESS"] = "10.0.0.5:6379"
    assert cluster_address(Config()) == "10.0.0.5:6379"


def test_environment_is_set_on_purpose(tmp_path: Path) -> None:
    os.environ["RAY_USAGE_STATS_ENABLED"] = "1"
    os.environ["MLFLOW_TRACKING_URI"] = "http://user:secret@10.0.0.4:5000"
    workers = prepare_environment(Config(threads=3))
    assert "MLFLOW_TRACKING_URI" not in workers  # Ray logs this table, and only the job ships
    assert os.environ["RAY_AUTH_MODE"] == "disabled"
    assert int(workers["TUNE_FUNCTION_THREAD_TIMEOUT_S"]) >= 300  # actors of trials read it, on whichever node
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "1"  # the user's word counts
    assert workers["OMP_NUM_THREADS"] == os.environ["OMP_NUM_THREADS"] == "3"
    assert os.environ["PYTHONPATH"].split(os.pathsep)[0] == str(ROOT / "platform")
    os.environ.pop("RAY_AUTH_MODE")
    (tmp_path / "home" / ".ray").mkdir(parents=True)
    (tmp_path / "home" / ".ray" / "auth_token").write_text("t")
    assert prepare_environment(Config(address="10.0.0.4:6379"))["RAY_AUTH_MODE"] == "token"


def test_what_nodes_of_a_cluster_must_know_reaches_their_workers() -> None:
    told = {"VSE_CACHE": "/local", "VSE_CACHE_GIB": "20", "AWS_REGION": "us-west-2"}
    os.environ.update(told)
    workers = prepare_environment(Config(address="10.0.0.4:6379"))
    assert {name: workers.get(name) for name in told} == told


@pytest.mark.parametrize(("config", "seconds"), [(Config(), "120"), (Config(address="10.0.0.4:6379"), "900")])
def test_workers_are_waited_for_longer_than_rays_minute(config: Config, seconds: str) -> None:
    """It includes the start of their processes, and on a cluster that of their nodes."""
    os.environ.pop("RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S", None)
    assert prepare_environment(config)["RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"] == seconds


def test_a_busy_node_has_time_to_tell_its_credentials() -> None:
    names = "AWS_METADATA_SERVICE_TIMEOUT", "AWS_METADATA_SERVICE_NUM_ATTEMPTS"
    for name in names:
        os.environ.pop(name, None)
    prepare_environment(Config())
    assert not set(names) & os.environ.keys()  # off a cluster "no credentials" is to be said at once
    os.environ["AWS_METADATA_SERVICE_TIMEOUT"] = "7"
    workers = prepare_environment(Config(address="10.0.0.4:6379"))
    assert [os.environ[name] for name in names] == [workers[name] for name in names] == ["7", "10"]


class _SlowNode(BaseHTTPRequestHandler):
    """The credentials of an instance profile, told by a node that takes its time and wants a token (HttpTokens)."""

    def do_PUT(self) -> None:
        time.sleep(1.2)
        self._answer(b"token")

    def do_GET(self) -> None:
        if self.headers.get("x-aws-ec2-metadata-token") is None:
            self.send_error(401)
            return
        keys = {"Code": "Success", "AccessKeyId": "k", "SecretAccessKey": "s", "Token": "t"}
        there = self.path.endswith("/security-credentials/worker")
        self._answer(json.dumps({**keys, "Expiration": "2100-01-01T00:00:00Z"}).encode() if there else b"worker")

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):  # nobody waits any more
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.mark.process
def test_credentials_of_a_node_that_answers_late(tmp_path: Path) -> None:
    from botocore.session import Session

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        os.environ.pop(name)
    node = ThreadingHTTPServer(("127.0.0.1", 0), _SlowNode)
    threading.Thread(target=node.serve_forever, daemon=True).start()
    os.environ["AWS_EC2_METADATA_SERVICE_ENDPOINT"] = f"http://127.0.0.1:{node.server_address[1]}/"
    os.environ["AWS_CONFIG_FILE"] = os.environ["AWS_SHARED_CREDENTIALS_FILE"] = str(tmp_path / "none")
    try:
        prepare_environment(Config())
        hurried = Session().get_credentials()
        prepare_environment(Config(address="10.0.0.4:6379"))
        patient = Session().get_credentials()
    finally:
        node.shutdown()
        node.server_close()
    assert patient is not None
    assert patient.access_key == "k"
    assert hurried is None


@pytest.mark.parametrize("chosen", [None, "1"])
def test_uv_makes_no_environment_for_workers(monkeypatch: pytest.MonkeyPatch, chosen: str | None) -> None:
    """A driver under `uv run`, as far as Ray can see, which was imported with its default."""
    import ray
    from ray._private import ray_constants, worker
    from ray._private.runtime_env import uv_runtime_env_hook

    monkeypatch.setattr(ray_constants, "RAY_ENABLE_UV_RUN_RUNTIME_ENV", True)
    monkeypatch.setattr(uv_runtime_env_hook, "_get_uv_run_cmdline", lambda: ["uv", "run", "python", "jobs/train.py"])
    if chosen is not None:
        os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = chosen
    asked: list[dict[str, Any]] = []

    def init(**options: Any) -> None:
        asked.append(worker._maybe_modify_runtime_env(options["runtime_env"], False))
        raise ConnectionError("nobody")

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(InputError, match="nobody"), runtime.running_ray(Config(address="10.0.0.4:6379")):
        pass
    assert asked[0]["env_vars"]["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] == (chosen or "0")
    assert ("py_executable" in asked[0]) is (chosen == "1")


SESSION = """
import os, signal, sys
from pathlib import Path
from types import SimpleNamespace
from vse.cluster.runtime import Config, running_ray, started_here

def listening(pids):
    inodes = set()
    for pid in pids:
        for fd in Path(f"/proc/{pid}/fd").iterdir():
            try:
                target = os.readlink(fd)
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                found.append(words[1].split(":")[0])
    return found

def below(root):
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    family = {root}
    while True:
        more = {pid for pid, parent in parents.items() if parent in family} - family
        if not more:
            return family - {root}
        family |= more

handler = lambda number, frame: None
signal.signal(signal.SIGTERM, handler)
with running_ray(Config(cpus=2, store_mib=80)) as num_nodes:
    import ray
    assert started_here() and num_nodes == 1 and ray.cluster_resources()["CPU"] == 2
    assert ray.get_runtime_context().gcs_address.startswith("127.0.0.1:")
    (scratch,) = {Path(ray._private.worker.global_worker.node.get_temp_dir_path()).parent}
    assert scratch.stat().st_mode & 0o777 == 0o700, "others can read Ray's logs"
    assert signal.getsignal(signal.SIGTERM) is handler
    from vse.workspace.provenance import versions
    there = ray.get(ray.remote(lambda: (os.environ["OMP_NUM_THREADS"], versions()["vse"])).remote())
    assert there == ("1", versions()["vse"]), there
    addresses = listening(below(os.getpid()))
    loopback = {"0100007F", "0000000000000000FFFF00000100007F"}
    assert len(addresses) > 5 and set(addresses) <= loopback, addresses
    with running_ray(Config()) as num_nodes:
        assert num_nodes == 1
    assert ray.is_initialized()
assert not ray.is_initialized()
print("ended well")
"""


@pytest.mark.parametrize(("free", "most"), [(64, 256), (1000, 500), (24_000, 1024)])
def test_objects_get_half_of_the_free_shared_memory_within_bounds(
    free: int, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free * 2**20))
    assert runtime._store_mib(tmp_path) == most
    assert runtime._store_mib(tmp_path / "absent") == 1024


@pytest.mark.slow
def test_ray_is_small_on_loopback_and_ended(tmp_path: Path) -> None:
    script = tmp_path / "session.py"
    script.write_text(textwrap.dedent(SESSION))
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "platform")}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "ended well"


def test_ray_that_is_never_up_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def init(**_: Any) -> None:
        raise Exception("The current node timed out during startup. This could happen because")  # as Ray does

    monkeypatch.setattr(ray, "init", init)
    started = runtime.running_ray(runtime.Config(address="local", cpus=1, gpus=0, store_mib=100))
    with (
        pytest.raises(PlacementError, match=r"^Ray did not start within 120 s; is this machine overloaded\?$"),
        started,
    ):
        pass


def test_joining_what_is_not_there_is_wrong_input(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def refuse(**options: object) -> None:
        raise ConnectionError("nobody at 10.0.0.4\nand more")

    monkeypatch.setattr(runtime, "check_answers", lambda address, named: None)
    monkeypatch.setattr(ray, "init", refuse)
    with (
        pytest.raises(InputError, match=r"ray\.address=10\.0\.0\.4:6379: no cluster answers \(nobody at 10\.0\.0\.4\)"),
        runtime.running_ray(Config(address="10.0.0.4:6379")),
    ):
        pass


def test_what_a_cluster_left_here_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher's file stays on an on-prem head after `ray down`."""
    import ray

    def refuse(**options: object) -> None:
        raise ConnectionError("nobody")

    monkeypatch.setattr(runtime, "check_answers", lambda address, named: None)
    monkeypatch.setattr(ray, "init", refuse)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(runtime, "LAUNCHED", str(tmp_path / "ray_bootstrap_config.yaml"))
    (tmp_path / "ray_bootstrap_config.yaml").touch()
    with (
        pytest.raises(
            InputError, match=r"ray_bootstrap_config\.yaml names a cluster: remove this file .* ray\.address=local$"
        ),
        runtime.running_ray(Config()),
    ):
        pass


@pytest.mark.process
def test_joining_without_a_token_is_wrong_input(tmp_path: Path) -> None:
    """In a process of its own, since Ray reads its mode once."""
    script = tmp_path / "join.py"
    script.write_text(
        "from vse.cluster import runtime\n"
        "from vse.cluster.runtime import Config, running_ray\n"
        "from vse.errors import InputError\n"
        "runtime.check_answers = lambda address, named: None\n"  # as if something listened there
        "try:\n"
        "    with running_ray(Config(address='127.0.0.1:1')):\n"
        "        pass\n"
        "except InputError as error:\n"
        "    print(error)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "platform"), "HOME": str(tmp_path), "RAY_AUTH_MODE": "token"}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.startswith("ray.address=127.0.0.1:1: the cluster requires a token (Token authentication"), (
        done.stderr
    )
    assert len(done.stdout.splitlines()) == 1


def test_ranks_with_gpus_keep_to_nodes_that_stay(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    launched = tmp_path / "home" / "ray_bootstrap_config.yaml"
    launched.write_text(LAUNCHED)
    assert runtime.train_nodes(1) is None
    assert "VSE_TRAIN_NODES" not in prepare_environment(Config())
    steady = "  steady: {resources: {GPU: 1}, labels: {vse.lifecycle: on-demand}, max_workers: 1, node_config: {}}\n"
    launched.write_text(LAUNCHED + steady)
    assert prepare_environment(Config())["VSE_TRAIN_NODES"] == "on-demand"  # for processes on other nodes too
    assert runtime.train_nodes(1) == {"vse.lifecycle": "on-demand"}
    assert runtime.train_nodes(0) is None


def test_threads_are_what_was_asked() -> None:
    runtime.set_threads(1)
    assert torch.get_num_threads() == 1
    runtime.set_threads(1)  # a second time is no error


def test_messages_go_to_stderr_once(capsys: pytest.CaptureFixture[str]) -> None:
    own = logging.getLogger("vse")
    before = own.handlers[:], own.propagate, own.level
    try:
        own.handlers.clear()
        runtime.set_up_logging()
        runtime.set_up_logging()
        logging.getLogger("vse.anything").info("one line")
        told = capsys.readouterr()
        assert (told.out, told.err) == ("", "one line\n")
        assert logging.getLogger("alembic").level == logging.ERROR
    finally:
        own.handlers[:], own.propagate, own.level = before


@pytest.mark.process
@pytest.mark.parametrize(("options", "shown"), [([], False), (["-Walways"], True)])
def test_what_libraries_say_of_the_future_is_shown_to_who_asks(options: list[str], shown: bool) -> None:
    code = "import warnings; from vse.cluster import runtime; runtime.set_up_logging(); "
    code += "warnings.warn('`torch.jit.script` is deprecated', FutureWarning)"
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONWARNINGS"}
    done = subprocess.run([sys.executable, *options, "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert ("is deprecated" in done.stderr) is shown


def test_the_environment_is_plain_data(monkeypatch: pytest.MonkeyPatch) -> None:
    import json

    told = environment.environment()
    assert json.loads(json.dumps(told)) == told
    assert told["versions"]["torch"].startswith("2.")
    assert told["hardware"]["cores"] >= 1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert environment.gpus() == []
