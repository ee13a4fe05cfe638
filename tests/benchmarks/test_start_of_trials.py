"""What the process of a trial spends before its first epoch ends, against the least that any would. `-s` shows it."""

import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from vse import presets
from vse.stages import pipeline
from vse.workspace.layout import Workspace

pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(600)]
PRESET, ROUNDS = "vsepp_tiny", 5
_TOLD = """
import resource, time
print(time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
_FLOOR = f"""
import torch
from ray import tune
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.AdamW(model.parameters())
model(torch.ones(4, 8)).sum().backward()
optimizer.step()
{_TOLD}
"""
_TRIAL = f"""
import json, sys
import torch
from ray import tune
from vse import presets
from vse.config import override
from vse.stages.train import run_training
from vse.workspace.layout import Workspace
seed, root, found = sys.argv[1:]
config = override(presets.preset({PRESET!r}), {{"seed": int(seed), "train.epochs": 1}})
run_training(config, Workspace.open(root, json.loads(found)))
{_TOLD}
"""


def _spent(program: str, *arguments: str) -> tuple[float, float]:
    """(CPU seconds, MiB at the most) of a process."""
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    seconds, mib = map(float, done.stdout.split())
    return seconds, mib


def test_a_trial_begins_soon(tmp_path: Path) -> None:
    """A whole epoch of a tiny training is part of it; what stages made is there, as in a sweep."""
    workspace = Workspace.open(str(tmp_path))
    pipeline.prepare(presets.preset(PRESET), workspace)
    found = json.dumps(workspace.external.answers)
    floors, trials = [], []
    for seed in range(ROUNDS):  # by turns: the machine is not the same from minute to minute
        floors.append(_spent(_FLOOR))
        trials.append(_spent(_TRIAL, str(seed), str(tmp_path), found))
    (floor, least), (trial, most) = (
        tuple(map(statistics.median, zip(*each, strict=True))) for each in (floors, trials)
    )
    print(
        f"\na process that imports torch and Tune and takes a step of AdamW: {floor:.2f} CPU seconds, {least:.0f} MiB; "
        f"one that trains {PRESET} for an epoch: {trial:.2f}, {most:.0f}; {trial / floor:.2f} times the seconds"
    )
    assert trial / floor < 1.5
