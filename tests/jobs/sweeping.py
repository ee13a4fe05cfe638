"""Sweeps of trainings run as a user runs them, on sizes that take seconds."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SMALL = ["data.num_train=60", "data.num_val=20", "data.num_test=30", "data.num_shifted=30", "model.dim=64"]
SMALL += ["train.batch_size=64", "objective.warmup=1"]  # what the tiny presets are made by


def command(job: str, workspace: Path, *more: str) -> list[str]:
    return [sys.executable, str(ROOT / "jobs" / f"{job}.py"), "--workspace", str(workspace), *more]


def environment() -> dict[str, str]:
    values = {**os.environ, "PYTHONPATH": f"{ROOT / 'platform'}{os.pathsep}{ROOT}", "OMP_NUM_THREADS": "1"}
    values.pop("MLFLOW_TRACKING_URI", None)
    return values


def run(job: str, workspace: Path, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(job, workspace, *more),
        cwd=workspace.parent,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=400,
    )


def summary_of(result: subprocess.CompletedProcess[str]) -> Path:
    assert result.returncode == 0, result.stderr
    return Path(result.stdout.splitlines()[-1])


def ledger(summary: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in summary.with_name("ledger.jsonl").read_text().splitlines()]


def outcome(summary: Path) -> dict[str, Any]:
    """What a sweep found, without what depends on the clock."""
    data = json.loads(summary.with_name("results.json").read_text())
    points = {p["label"]: {k: v for k, v in p.items() if k != "seconds"} for p in data["points"]}
    best = None if data["best"] is None else data["points"][data["best"]]["label"]
    return {"points": points, "best": best, "claims": data["claims"]}
