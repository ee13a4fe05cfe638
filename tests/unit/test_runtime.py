"""Starting and ending Ray, refusing impossible requests, seeds and threads."""

import contextlib
import logging
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from vse import environment, runtime
from vse.errors import InputError
from vse.runtime import Config, cluster_address, preflight, prepare_environment

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [n for n in os.environ if n.startswith(("RAY_", "TUNE_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(os, "environ", os.environ.copy())


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


SESSION = """
import os, signal, sys
from pathlib import Path
from types import SimpleNamespace
from vse.runtime import Config, running_ray

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
with running_ray(Config(cpus=2, store_mib=80)) as session:
    import ray
    assert session.started and session.cpus == 2 and session.nodes == 1, session
    assert session.address.startswith("127.0.0.1:"), session
    assert signal.getsignal(signal.SIGTERM) is handler
    from vse.environment import versions
    there = ray.get(ray.remote(lambda: (os.environ["OMP_NUM_THREADS"], versions()["vse"])).remote())
    assert there == ("1", versions()["vse"]), there
    addresses = listening(below(os.getpid()))
    loopback = {"0100007F", "0000000000000000FFFF00000100007F"}
    assert len(addresses) > 5 and set(addresses) <= loopback, addresses
    with running_ray(Config()) as inner:
        assert not inner.started
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


def test_joining_what_is_not_there_is_wrong_input(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def refuse(**options: object) -> None:
        raise ConnectionError("nobody at 10.0.0.4\nand more")

    monkeypatch.setattr(ray, "init", refuse)
    with (
        pytest.raises(InputError, match=r"ray\.address=10\.0\.0\.4:6379: no cluster answers \(nobody at 10\.0\.0\.4\)"),
        runtime.running_ray(Config(address="10.0.0.4:6379")),
    ):
        pass


def test_preflight_refuses_what_can_never_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    space = str(tmp_path / "w")
    preflight(space, Config(cpus=4, gpus=0), workers=4)
    with pytest.raises(InputError, match=r"train\.workers=5: needs 5 CPUs, but this machine has 4; at most 4 workers"):
        preflight(space, Config(cpus=4, gpus=0), workers=5, key="train.workers")
    with pytest.raises(InputError, match="a GPU is asked for, but this machine has none"):
        preflight(space, Config(cpus=4, gpus=0), gpus_per_worker=1)
    with pytest.raises(InputError, match="at most 1 worker fits"):
        preflight(space, Config(cpus=4, gpus=1), workers=2, gpus_per_worker=1)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file"):
        preflight(str(tmp_path / "file" / "w"), Config(cpus=4))


LAUNCHED = """
max_workers: 3
head_node_type: head
available_node_types:
  head: {resources: {CPU: 8}, node_config: {}}
  gpu: {resources: {CPU: 8, GPU: 1}, max_workers: 3, node_config: {}}
"""


def test_preflight_knows_what_an_autoscaler_can_bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "ray_bootstrap_config.yaml").write_text(LAUNCHED)
    shared = Config(shared_workspace=True)
    preflight(str(tmp_path / "w"), shared, workers=3, gpus_per_worker=1)
    with pytest.raises(InputError, match="workers=4: needs 4 GPUs, but the cluster can have 3"):
        preflight(str(tmp_path / "w"), shared, workers=4, gpus_per_worker=1)

    looked: list[str] = []
    here = 1

    @contextlib.contextmanager
    def joined(config: Config) -> Iterator[runtime.Session]:
        yield runtime.Session(address="10.0.0.4:6379", started=False, cpus=8, gpus=0, nodes=here)

    monkeypatch.setattr(runtime, "running_ray", joined)
    monkeypatch.setattr(runtime, "check_shared", looked.append)
    with pytest.raises(InputError, match="a local path, but the cluster can have 4 nodes, and none is there yet"):
        preflight(str(tmp_path / "w"), Config())
    here = 2
    preflight(str(tmp_path / "w"), Config())
    assert looked == [str(tmp_path / "w")]


STEADY = """
  spot: {resources: {CPU: 8, GPU: 1}, labels: {vse.lifecycle: spot}, max_workers: 2, node_config: {}}
  steady: {resources: {CPU: 8, GPU: 1}, labels: {vse.lifecycle: on-demand}, max_workers: 1, node_config: {}}
"""


def test_ranks_beyond_the_nodes_that_stay_are_refused(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "ray_bootstrap_config.yaml").write_text(
        LAUNCHED.replace(": 3\n", ": 9\n") + STEADY.lstrip("\n")
    )
    space, shared = str(tmp_path / "w"), Config(shared_workspace=True)
    steady = runtime.steady_nodes(shared, gpus=1)
    assert steady == {"vse.lifecycle": "on-demand"}
    assert runtime.steady_nodes(shared, gpus=0) is runtime.steady_nodes(Config(address="local"), gpus=1) is None
    preflight(space, shared, workers=6, gpus_per_worker=1)
    preflight(space, shared, workers=1, gpus_per_worker=1, labels=steady)
    with pytest.raises(
        InputError,
        match=r"train\.workers=2: needs 2 GPUs, but the cluster can have 1 on nodes labelled vse\.lifecycle: ",
    ):
        preflight(space, shared, workers=2, gpus_per_worker=1, labels=steady, key="train.workers")
    with pytest.raises(
        InputError, match="each needs 9 CPUs and 0 GPUs of one node, and the cluster can have room for 0"
    ):
        preflight(space, shared, workers=1, cpus_per_worker=9)


def test_gpus_that_a_training_leaves_unused_are_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "ray_bootstrap_config.yaml").write_text(LAUNCHED)
    with caplog.at_level(logging.WARNING):
        preflight(str(tmp_path / "w"), Config(shared_workspace=True), gpus_per_worker=1)
        preflight(str(tmp_path / "w"), Config(address="local", cpus=1, gpus=1))
        assert not caplog.records
        preflight(str(tmp_path / "w"), Config(shared_workspace=True))
    assert [record.message for record in caplog.records] == [
        "trains on CPUs, though the cluster can have 3 GPUs; train.gpus_per_worker=1 uses them"
    ]


def test_a_cluster_file_counts_only_for_the_cluster_it_launched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "ray_bootstrap_config.yaml").write_text(LAUNCHED)
    assert runtime.capacity().total() == {"CPU": 32, "GPU": 3}
    assert runtime.capacity(Config(address="local", cpus=2, gpus=0)).total() == {"CPU": 2, "GPU": 0}
    up = [{"Alive": True, "Resources": {"CPU": 5.0}, "Labels": {}}]
    monkeypatch.setattr(runtime, "_session", lambda started: None)
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: True, nodes=lambda: up))
    assert runtime.capacity().total() == {"CPU": 32, "GPU": 3}
    monkeypatch.setattr(runtime, "_started_here", True)
    assert runtime.capacity().total() == {"CPU": 5, "GPU": 0}


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


def test_the_environment_is_plain_data(monkeypatch: pytest.MonkeyPatch) -> None:
    import json

    told = environment.environment()
    assert json.loads(json.dumps(told)) == told
    assert told["versions"]["torch"].startswith("2.")
    assert told["hardware"]["cores"] >= 1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert environment.gpus() == []
