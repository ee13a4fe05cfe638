"""Eight small trainings that share a GPU by fraction, against the same one after another. `-s` shows the ratio.

On an H100 with 16 cores it was 2.35 for 40 epochs with the starts of eight processes, about 3.1 without. A start has
since become shorter: no compiler, no SciPy, and records that the driver tells of instead of rendering them anew.
"""

import functools
import time
from pathlib import Path

import pytest
import torch

from tests.unit.sweeps import trials
from vse.config import override
from vse.presets import preset
from vse.stages import pipeline
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace
from vse.workspace.provenance import usable_cores

pytestmark = [
    pytest.mark.benchmark,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU that trainings could share"),
]
PRESET, TRIALS, GOAL = "vsepp_scenes", 8, 3.0
SETTINGS = {"train.gpus_per_worker": 1 / TRIALS, "train.epochs": 60}


def seconds(folder: Path, at_once: int) -> float:
    """How long the trainings take, so many side by side, once images and captions are prepared."""
    from tests.unit.sweeps.running import run_sweep
    from vse.cluster.runtime import Config, running_ray
    from vse.sweeps.ledger import Ledger
    from vse.sweeps.plan import need_of

    config = override(preset(PRESET), SETTINGS)
    workspace = Workspace.open(str(folder))
    pipeline.prepare(config, workspace)
    work = functools.partial(trials.train, preset=PRESET, workspace=str(folder), found=workspace.external.answers)
    points = [{"seed": seed, **SETTINGS} for seed in range(TRIALS)]
    with running_ray(Config(address="local", cpus=TRIALS + 1)):
        started = time.perf_counter()
        entries = run_sweep(
            Ledger(Folder.open(folder / "sweep")), points, work, need=need_of(config.train), concurrency=at_once
        )
        took = time.perf_counter() - started
    assert [entry.state for entry in entries] == ["finished"] * TRIALS
    return took


def test_eight_trainings_share_a_gpu(tmp_path: Path) -> None:
    """On fewer than eight cores the processor is what they wait for, and the ratio is only told."""
    alone, shared = seconds(tmp_path / "alone", 1), seconds(tmp_path / "shared", TRIALS)
    print(
        f"\n{TRIALS} trainings of {PRESET} on {torch.cuda.get_device_name()} and {usable_cores()} cores: one after "
        f"another {alone:.1f} s, side by side {shared:.1f} s, {alone / shared:.2f} times the throughput (goal {GOAL:g})"
    )
    assert alone / shared > (GOAL if usable_cores() >= TRIALS else 1.0)
