"""What one-worker jobs promise: they listen on loopback only, and a Tune trial gives the bits that `train.py` gives."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.processes import command, environment
from tests.jobs.sockets import outside, watch

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SIZES = ["data.num_train=40", "data.num_val=10", "data.num_test=10", "data.num_shifted=0"]
SPACE = "from ray import tune\nSPACE = {'model.alpha': tune.grid_search([0.5, 1.0])}\n"
CLOCKS = ("seconds", "train/seconds")


@dataclass(frozen=True)
class Ran:
    """One job, and what its processes listened on."""

    status: int
    out: str
    error: str
    sockets: dict[str, str]


def ran(job: str, workspace: Path, *more: str) -> Ran:
    """A job with as many threads as its machine would give it by itself: the configuration decides, not the shell."""
    variables = environment()
    variables.pop("OMP_NUM_THREADS")
    return Ran(*watch(command(job, workspace, *more), workspace.parent, variables))


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    """A tiny sweep: VSE++ and UniVSE trained in Tune's trials."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "space.py").write_text(SPACE)
    more = ["--preset", "univse_tiny", *SIZES, "sweep.seeds=0", "sweep.name=curve", f"sweep.space={folder}/space.py"]
    return folder / "workspace", ran("sweep_alpha", folder / "workspace", *more)


@pytest.fixture(scope="module")
def trained(sweep: tuple[Path, Ran], tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Path, Ran]]:
    """Run -> (its folder from the trial, its folder from `train.py` in an empty workspace, that job)."""
    workspace = tmp_path_factory.mktemp("train") / "workspace"
    found = {}
    for run in sorted((sweep[0] / "runs").iterdir()):
        (workspace.parent / f"{run.name}.json").write_bytes((run / "config.json").read_bytes())
        job = ran("train", workspace, "--preset", str(workspace.parent / f"{run.name}.json"))
        found[run.name.partition("-")[0]] = (run, workspace / "runs" / run.name, job)
    return found


@pytest.mark.parametrize("family", ["vsepp", "univse"])
def test_weights_and_metrics_are_bitwise_those_of_a_trial(
    sweep: tuple[Path, Ran], trained: dict[str, tuple[Path, Path, Ran]], family: str
) -> None:
    assert sweep[1].status == 0, sweep[1].error
    trial, job, told = trained[family]
    assert told.status == 0, told.error
    assert job.is_dir(), "another name: configuration or data differ"
    results = [without_clocks(json.loads((place / "result.json").read_text())) for place in (trial, job)]
    assert results[0] == results[1]
    assert len(results[0]["history"]) == 2
    kept = f"checkpoints/epoch-{results[0]['best']:04d}"
    for file in ("model.safetensors", "optimizer.safetensors", "vocabulary.json", "config.json"):
        assert (trial / kept / file).read_bytes() == (job / kept / file).read_bytes(), file


def without_clocks(value: Any) -> Any:
    """Plain data less what a clock measured."""
    if isinstance(value, dict):
        return {key: without_clocks(item) for key, item in value.items() if key not in CLOCKS}
    return [without_clocks(item) for item in value] if isinstance(value, list) else value


def test_a_sweep_listens_on_loopback_only(sweep: tuple[Path, Ran]) -> None:
    assert sweep[1].status == 0, sweep[1].error
    assert {"raylet", "gcs_server"} <= set(sweep[1].sockets.values())
    assert outside(sweep[1].sockets) == {}


def test_an_extraction_by_ray_listens_on_loopback_only(tmp_path: Path) -> None:
    told = ran("extract_features", tmp_path / "workspace", "--preset", "vsepp_tiny", *SIZES, "extraction.workers=1")
    assert told.status == 0, told.error
    assert {"raylet", "gcs_server"} <= set(told.sockets.values())
    assert outside(told.sockets) == {}


def test_a_training_with_one_worker_listens_nowhere(trained: dict[str, tuple[Path, Path, Ran]]) -> None:
    for _, _, told in trained.values():
        assert told.sockets == {}


@pytest.mark.parametrize(
    ("bind", "public"), [("0.0.0.0", True), ("127.0.0.1", False), ("::", True), ("::1", False), ("127.1.2.3", False)]
)
def test_a_listener_is_found_though_it_left_the_family(bind: str, public: bool, tmp_path: Path) -> None:
    family = "AF_INET6" if ":" in bind else "AF_INET"
    listener = f"s = socket.socket(socket.{family}); s.bind(('{bind}', 0)); s.listen(); time.sleep(2)"
    starter = f"Popen([sys.executable, '-c', {'import socket, time; ' + listener!r}], start_new_session=True)"
    script = f"import sys, time; from subprocess import Popen; {starter}; time.sleep(1.5)"
    status, _, error, seen = watch([sys.executable, "-c", script], tmp_path, environment())
    if "Cannot assign requested address" in error or "not supported" in error:
        pytest.skip(f"this machine has no {family}")
    assert status == 0, error
    assert len(seen) == 1, error
    assert bool(outside(seen)) is public
