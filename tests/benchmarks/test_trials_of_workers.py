"""What a trial of two workers (gloo) costs beyond its training, and what of it Ray Train takes to run nothing.

Run with `-s` to see the seconds.
"""

import functools
import time
from pathlib import Path
from typing import Any, cast

import pytest

from tests.unit.sweeps import trials
from vse.config import override
from vse.presets import preset
from vse.stages import pipeline
from vse.storage.folder import Folder
from vse.sweeps.ledger import Ledger
from vse.workspace.layout import Workspace

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]
PRESET, TRIALS = "vsepp_tiny", 2
SETTINGS = {"train.workers": 2, "train.threads": 1}


def bare(folder: Path) -> float:
    """Seconds of a job of Ray Train whose two workers only form their group."""
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    started, trainer = time.perf_counter(), cast(Any, TorchTrainer)  # it is of either version of Ray Train
    trainer(
        lambda: None,
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=str(folder)),
    ).fit()
    return time.perf_counter() - started


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ray, when it is imported
def test_a_trial_of_two_workers(tmp_path: Path) -> None:
    from tests.unit.sweeps.running import run_sweep
    from vse.cluster.runtime import Config, running_ray
    from vse.sweeps.plan import need_of

    config = override(preset(PRESET), SETTINGS)
    pipeline.prepare(config, Workspace.open(str(tmp_path)))
    work = functools.partial(trials.train, preset=PRESET, workspace=str(tmp_path))
    points = [{"seed": seed, **SETTINGS} for seed in range(TRIALS)]
    with running_ray(Config(address="local", cpus=3, store_mib=80)):
        started = time.perf_counter()
        entries = run_sweep(
            Ledger(Folder.open(tmp_path / "sweep")), points, work, need=need_of(config.train), concurrency=1
        )
        took = time.perf_counter() - started
        empty = [bare(tmp_path / f"bare-{n}") for n in range(TRIALS)]
    trained = [entry.result["seconds"] for entry in entries]
    beyond = (took - sum(trained)) / TRIALS
    print(f"\n{TRIALS} trials of two workers, one at a time: {took:.1f} s, {beyond:.1f} s a trial beyond its training")
    print(f"Ray Train with two workers that do nothing: {[round(each, 1) for each in empty]} s")
    print(
        f"trials {[round(e.seconds, 1) for e in entries]} s, in them training {[round(each, 1) for each in trained]} s"
    )
    assert [entry.state for entry in entries] == ["finished"] * TRIALS
