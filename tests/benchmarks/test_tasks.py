"""CPU time and memory of every evaluation task on 100 rendered images, by UniVSE, which has numbers for nearly all."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.unit.asked import every_task
from vse.config import override
from vse.presets import preset
from vse.stages import pipeline
from vse.stages.measuring.plan import plan_measure
from vse.stages.measuring.stage import carry_out
from vse.stages.train import run_training
from vse.storage.folder import Folder
from vse.workspace.layout import Workspace

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(3600)]
MIB = 2**20
MOST = 64  # MiB that a task may add, unless it trains probes: one block of scores, and what its libraries take


def cost(work: Callable[[], object]) -> tuple[float, float]:
    """(CPU seconds, MiB that the process had more of than before) of some work."""
    process, stop, most = psutil.Process(), threading.Event(), 0
    before = process.memory_info().rss

    def watch() -> None:
        nonlocal most
        while not stop.wait(0.002):
            most = max(most, process.memory_info().rss)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    start = time.process_time()
    try:
        work()
    finally:
        spent = time.process_time() - start
        stop.set()
        watcher.join()
    return spent, max(0, most - before) / MIB


def test_cost_of_every_task(tmp_path: Path) -> None:
    workspace = Workspace.open(str(tmp_path / "workspace"))
    config = override(preset("univse_small"), {"train.epochs": 1})
    run = run_training(config, workspace).folder
    split = pipeline.prepare(config, workspace).records.split("test")
    names, options = every_task(split, tmp_path)
    plan = plan_measure([run], workspace, names, options)  # captions and adversaries are parsed here
    carry_out(replace(plan, tasks={"retrieval": plan.tasks["retrieval"]}, missing={}), Folder.open(tmp_path / "warm"))
    print(f"\n{len(split.images)} images, {len(split.captions)} captions\n| task | CPU seconds | MiB |\n|---|---|---|")
    added = dict[str, float]()
    for name, task in plan.tasks.items():
        alone = replace(plan, tasks={name: task}, missing={})
        spent, added[name] = cost(lambda alone=alone, name=name: carry_out(alone, Folder.open(tmp_path / name)))
        print(f"| {name} | {spent:.1f} | {added[name]:.0f} |", flush=True)
    assert {name: mib for name, mib in added.items() if mib > MOST and not plan.tasks[name].trains_probes} == {}
