"""Rates of training, stages, trials and the spool: what is computed, what it costs, what Ray's endpoint shows."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.tracking.test_dashboard import QUERIES, metrics
from vse.display import progress
from vse.display.progress import Progress
from vse.tracking import prometheus
from vse.tracking.prometheus import Steps

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, ...], float]:
    """What would be exported: (name, values of its tags) -> value."""
    found: dict[tuple[str, ...], float] = {}

    def show(name: str, value: float | None, **tags: str) -> None:
        assert sorted(tags) == sorted(prometheus.GAUGES[name][1]), name
        key = (name, *(tags[key] for key in prometheus.GAUGES[name][1]))
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value

    monkeypatch.setattr(prometheus, "show", show)
    return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr("vse.tracking.prometheus.time.monotonic", lambda: now[0])
    return now


def test_rates_are_means_over_the_last_seconds(shown: dict[tuple[str, ...], float], clock: list[float]) -> None:
    steps = Steps("sweep")
    for _ in range(10):  # 10 steps of 0.5 s in 5 s, a tenth of it waiting
        clock[0] += 0.5
        steps(128, 0.5, 0.05)
    assert shown["vse_captions_per_second", "sweep", "train"] == shown["vse_images_per_second", "sweep", "train"] == 256
    assert shown["vse_step_seconds", "sweep"] == pytest.approx(0.5)
    assert shown["vse_data_wait_share", "sweep"] == pytest.approx(0.1)
    clock[0] += prometheus.EVERY
    steps(100, 1.0, 1.0)
    assert shown["vse_data_wait_share", "sweep"] > 0.5
    steps.close()
    assert shown == {}


def test_stages_show_how_fast_they_go(
    shown: dict[tuple[str, ...], float], clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "listeners", [])
    prometheus.show_progress()
    prometheus.show_progress()
    assert len(progress.listeners) == 1
    with Progress("features", total=100, unit="images") as bar, Progress("train", unit="trials") as trials:
        bar.advance(10)
        clock[0] += 4
        bar.advance(40)
        trials.advance()
        assert shown == {("vse_images_per_second", "", "features"): 10.0}
    assert shown == {}


@pytest.mark.process
def test_without_ray_nothing_is_measured_and_ray_is_not_imported() -> None:
    code = "import sys; from vse.tracking import prometheus; prometheus.show('vse_spooled_runs', 1)\n"
    code += "prometheus.show_progress(); assert prometheus.steps_of('x') is None; sys.exit('ray' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "platform")}
    assert subprocess.run([sys.executable, "-c", code], env=environment, check=False).returncode == 0


def test_a_step_pays_microseconds(shown: dict[tuple[str, ...], float]) -> None:
    steps, count = Steps("sweep"), 20_000
    start = time.process_time()
    for _ in range(count):
        steps(128, 0.01, 0.001)
    assert (time.process_time() - start) / count < 100e-6  # 1 % of a step of 10 ms


def test_the_last_numbers_of_a_sweep_do_not_wait_for_an_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job leaves Ray at once, and Ray exports what is set by then."""
    values: dict[str, float] = {}
    gauge = SimpleNamespace(set=lambda value, tags: values.update({tags["state"]: value}))
    monkeypatch.setattr(prometheus, "running", lambda: True)
    monkeypatch.setattr(prometheus._Exporter, "_gauge", lambda self, name: gauge)
    monkeypatch.setattr(prometheus._Exporter, "_repeat", lambda self: None)
    monkeypatch.setattr(prometheus, "_exporter", prometheus._Exporter())
    prometheus.show_trials("sweep", {"waiting": 3, "running": 1})
    assert values == {}
    prometheus.show_trials("sweep", {"waiting": 0, "running": 0}, last=True)
    assert values == {"waiting": 0.0, "running": 0.0}


_WORK = """
import json, os, sys, time, urllib.request
from vse.config import override
from vse.workspace.journal import Journal
from vse.tracking.prometheus import show_trials
from vse.presets import preset
from vse.cluster.runtime import Config, running_ray
from vse.tracking.shipping import Shipper
from vse.stages.train import run_training
from vse.workspace.layout import Workspace

def train(workspace):
    sizes = {"data.num_train": 60, "data.num_val": 4, "data.num_test": 4, "data.num_shifted": 0}
    config = override(preset("vsepp_tiny"), {**sizes, "train.epochs": 4000, "train.evaluate_every": 4000})
    run_training(config, Workspace.open(workspace), parent="the-sweep")

with running_ray(Config(cpus=2)):
    import ray
    node = ray.nodes()[0]
    task = ray.remote(train).remote(sys.argv[1])
    Journal(f"{sys.argv[1]}/runs/waiting/journal.jsonl").start("waiting")
    Shipper(sys.argv[1], "http://127.0.0.1:9").ship()
    show_trials("the-sweep", {"waiting": 3, "running": 1, "finished": 0, "failed": 0})
    text, wanted, began = "", set(json.loads(sys.argv[2])), time.monotonic()
    while time.monotonic() - began < 100 and not (
        time.monotonic() - began > 10 and all(name in text for name in wanted)  # values told once are shown for good
    ):
        time.sleep(1)
        address = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
        text = urllib.request.urlopen(address, timeout=10).read().decode()
    ray.cancel(task, force=True)
    print(json.dumps([line for line in text.splitlines() if line.startswith("ray_")]))
"""


@pytest.mark.slow
def test_rays_endpoint_shows_a_training_the_trials_and_the_spool(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "platform"), "RAY_metrics_report_interval_ms": "1000"}
    environment |= {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0", "MLFLOW_HTTP_REQUEST_TIMEOUT": "1"}
    names = json.dumps([f"ray_{name}{{" for name in prometheus.GAUGES])
    (tmp_path / "work.py").write_text(_WORK)
    result = subprocess.run(
        [sys.executable, str(tmp_path / "work.py"), str(tmp_path / "workspace"), names],
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert result.returncode == 0, result.stderr
    lines = json.loads(result.stdout.splitlines()[-1])
    exported = {re.split(r"[{ ]", line)[0] for line in lines}
    shown = {name for name, _ in metrics(QUERIES) if not re.match(r"ray_node_g|ray_cluster_|up$", name)}
    assert shown - exported == set()  # without those of GPUs and of the autoscaler, which this machine lacks
    found = [_read(line) for line in lines if line.startswith("ray_vse_")]
    value: dict[Any, float] = {
        (name, tags.get("of"), tags.get("stage") or tags.get("state")): number for name, tags, number in found
    }
    assert value["vse_captions_per_second", "the-sweep", "train"] > 0
    assert value["vse_images_per_second", "the-sweep", "train"] > 0
    assert 0 < value["vse_step_seconds", "the-sweep", None] < 10
    assert 0 <= value["vse_data_wait_share", "the-sweep", None] < 1
    assert value["vse_trials", "the-sweep", "waiting"] == 3
    assert value["vse_spooled_runs", None, None] >= 1


def _read(line: str) -> tuple[str, dict[str, str], float]:
    found = re.fullmatch(r"ray_(\w+)\{(.*)\} (\S+)", line)
    assert found is not None, line
    return found[1], dict(re.findall(r'(\w+)="([^"]*)"', found[2])), float(found[3])
