"""A run stopped on some workers goes on with another number of them on the same curve; and workers fail as one."""

import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load

from tests.parity.elastic_worker import LOST, configured
from vse.config import override
from vse.stages import pipeline
from vse.stages.train import run_name
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.process

_counter = itertools.count()


def work(
    folder: Path, workers: int, status: int = 0, *, run: str = "run", preset: str = "vsepp_tiny", **more: Any
) -> list[str]:
    """Workers of a run to their end; returns what they printed. All must end with the status."""
    request = {"workers": workers, "store": str(folder / f"store-{next(_counter)}"), "workspace": str(folder / "space")}
    request |= {"run": run, "preset": preset, **more}
    environment = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    environment["PYTHONPATH"] = os.pathsep.join(p for p in sys.path if p)
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.parity.elastic_worker", json.dumps(request), str(rank)],
            cwd=Path(__file__).parents[2],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(workers)
    ]
    try:
        outputs = [process.communicate(timeout=300) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (out, error) in zip(processes, outputs, strict=True):
        assert process.returncode == status, out + error
    return [out.splitlines()[-1] if out else "" for out, _ in outputs]


def history(folder: Path, run: str) -> list[dict[str, float]]:
    rows = json.loads((folder / "space" / "runs" / run / "result.json").read_text())["history"]
    return [{key: value for key, value in row.items() if not key.endswith("seconds")} for row in rows]


def newest(folder: Path, run: str) -> str:
    return max(path.name for path in (folder / "space" / "runs" / run / "checkpoints").iterdir())


def weights(folder: Path, run: str) -> bytes:
    return (folder / "space" / "runs" / run / "checkpoints" / "epoch-0004" / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("elastic")


def whole(folder: Path, preset: str) -> str:
    """The run that nothing happened to, made when it is first asked for."""
    name = f"whole-{preset}"
    if not (folder / "space" / "runs" / name / "result.json").exists():
        work(folder, 1, run=name, preset=preset)
    return name


@pytest.mark.parametrize(
    ("preset", "before", "leave", "after", "within"),  # within: with checkpoints between the ends of epochs
    [
        pytest.param("vsepp_tiny", 2, (2, 1), 1, False, marks=pytest.mark.slow),
        pytest.param("vsepp_tiny", 1, (1, 3), 2, True, marks=pytest.mark.slow),
        pytest.param("vsepp_tiny", 2, (1, 3), 1, True, marks=pytest.mark.slow),
        pytest.param("vsepp_tiny", 2, (1, 0), 3, False, marks=pytest.mark.slow),
        pytest.param("vsepp_tiny", 3, (3, 2), 2, True, marks=pytest.mark.slow),
        pytest.param("univse_tiny", 2, (2, 1), 1, False, marks=pytest.mark.slow),
    ],
)
def test_the_curve_goes_on(
    folder: Path, preset: str, before: int, leave: tuple[int, int], after: int, within: bool
) -> None:
    name = f"{preset}-{before}-{after}-{within}"
    work(folder, before, LOST, run=name, preset=preset, leave=leave, every_step=within)
    assert newest(folder, name) == f"epoch-{leave[0]:04d}" + (f"-{leave[1]:06d}" if within else "")
    work(folder, after, run=name, preset=preset)
    undisturbed = whole(folder, preset)
    rows = list(zip(history(folder, undisturbed), history(folder, name), strict=True))
    assert len(rows) == 4
    for expected, found in rows:
        assert found == pytest.approx(expected, rel=1e-8, abs=1e-10)
    expected, found = (load(weights(folder, run)) for run in (undisturbed, name))
    for key, value in expected.items():
        assert (found[key] - value).abs().max() < 1e-8, key


@pytest.mark.slow
def test_two_workers_go_on_within_an_epoch_to_the_same_bits(folder: Path) -> None:
    work(folder, 2, run="two-whole")
    work(folder, 2, LOST, run="two", leave=(1, 3), every_step=True)
    assert newest(folder, "two") == "epoch-0001-000003"
    work(folder, 2, run="two")
    assert history(folder, "two") == history(folder, "two-whole")
    assert weights(folder, "two") == weights(folder, "two-whole")


def test_the_number_of_workers_does_not_enter_the_name(folder: Path) -> None:
    config = configured("vsepp_tiny", 2)
    material = pipeline.prepare(config, Workspace.open(str(folder / "space")))
    assert run_name(config, material) == run_name(configured("vsepp_tiny", 1), material)
    assert run_name(config, material) != run_name(override(config, {"train.batch_size": 8}), material)


@pytest.mark.parametrize(
    ("moment", "line"),
    [
        ("set-up", "InputError: this is wrong"),
        pytest.param("validate", "InputError: this is wrong", marks=pytest.mark.slow),
        pytest.param("save", "StorageError: the disk is full", marks=pytest.mark.slow),
    ],
)
def test_what_only_rank_0_finds_ends_all_workers_at_once(folder: Path, moment: str, line: str) -> None:
    started = time.monotonic()
    assert work(folder, 2, 1, run=f"failing-{moment}", fail=moment) == [line, line]
    assert time.monotonic() - started < 90  # a collective that waits for rank 0 would take 300 s
