"""What is done in the process of a trial, as far as it needs no Ray."""

import functools
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from tests.unit.stages.test_train import config
from vse.cluster import runtime
from vse.config import override
from vse.display import progress
from vse.display.progress import Progress
from vse.errors import StorageError, TakenOver
from vse.stages import contrast as stage
from vse.stages import extract as extraction
from vse.stages import parse as parsing
from vse.stages import pipeline
from vse.sweeps import trial_process
from vse.sweeps.trial_process import PAYLOAD, SAID, WAITED, GpuFaultError, run_function
from vse.workspace.layout import Workspace

SIZES = {"data.num_train": 20, "data.num_val": 5, "data.num_test": 5, "data.num_shifted": 0}


@pytest.fixture(autouse=True)
def on_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    context = SimpleNamespace(get_node_id=lambda: "a", get_assigned_resources=dict)
    monkeypatch.setattr(ray, "get_runtime_context", lambda: context)
    monkeypatch.setattr(runtime, "_in_trial", False)


def test_a_run_that_another_job_took_over_is_no_nodes_fault() -> None:
    """It comes again, and finds what the other one trained."""

    def ends(error: OSError) -> dict[str, Any]:
        def function(changes: dict[str, Any]) -> dict[str, Any]:
            raise error

        return json.loads(run_function({"changes": {}}, function)[PAYLOAD])

    assert ends(TakenOver("s3://bucket/runs/1: another job took this over")) == {
        "taken_over": "s3://bucket/runs/1: another job took this over"
    }
    full = ends(StorageError("/data: no space left on device"))
    assert (full["refused"], full["kind"], full["sick"]) == ("/data: no space left on device", "StorageError", True)


def test_a_failing_gpu_ends_the_process_of_its_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last report has the cause, because Tune passes on no more than a text of an error."""

    def compute(changes: dict[str, Any]) -> dict[str, Any]:
        raise RuntimeError(changes["error"])

    reports: list[dict[str, Any]] = []
    monkeypatch.setattr(trial_process.tune, "report", reports.append)
    monkeypatch.setattr("platform.node", lambda: "node7")
    context = SimpleNamespace(get_node_id=lambda: "a", get_assigned_resources=lambda: {"GPU": 1.0})
    monkeypatch.setattr(ray, "get_runtime_context", lambda: context)
    with pytest.raises(GpuFaultError, match=r"^the GPU of node7 fails: CUDA error: unknown error$"):
        run_function({"changes": {"error": "CUDA error: unknown error\nCUDA kernel errors might be reported"}}, compute)
    (payload,) = [json.loads(report[PAYLOAD]) for report in reports]
    assert payload == {
        "refused": "the GPU of node7 fails: CUDA error: unknown error",
        "kind": "GpuFaultError",
        "sick": True,
        "node": "a",
        "host": "node7",
    }
    with pytest.raises(RuntimeError, match="device-side assert"):
        run_function({"changes": {"error": "CUDA error: device-side assert triggered"}}, compute)
    assert len(reports) == 1


def test_stages_of_a_trial_are_told_as_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[dict[str, Any]] = []
    monkeypatch.setattr(trial_process, "STAGE_SECONDS", 0.0)
    monkeypatch.setattr(trial_process.tune, "report", reports.append)

    def function(changes: dict[str, Any]) -> dict[str, Any]:
        with Progress("parse captions", total=30, unit="captions") as bar:
            bar.advance(20)
        return {}

    run_function({"changes": {}}, function)
    assert reports[0].items() >= {SAID: "parse captions: 20 captions", WAITED: 0.0}.items()
    assert progress.listeners == [] or all("listen" not in repr(each) for each in progress.listeners)


@pytest.mark.seconds
def test_a_trial_makes_what_it_lacks_without_workers_of_rays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would wait for GPUs and cores that trials hold, and these for them."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("asked Ray for workers")

    def prepared(changes: dict[str, Any]) -> dict[str, Any]:
        material = pipeline.prepare(override(config("vsec_scenes"), SIZES | changes), Workspace.open(str(tmp_path)))
        return {"images": len(material.records.images), "parsed": material.parses is not None}

    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    monkeypatch.setattr(extraction, "ExtractionConfig", functools.partial(extraction.ExtractionConfig, patience=0.0))
    monkeypatch.setattr(extraction, "_with_ray", refuse)
    monkeypatch.setattr("vse.stages.shards_ray.run_with_ray", refuse)
    for module in (parsing, stage):
        monkeypatch.setattr(module, "WORTH_RAY", 1)
    told = run_function({"changes": {"data.seed": 3}}, prepared)
    assert json.loads(told[PAYLOAD])["result"] == {"images": 30, "parsed": True}


def test_credentials_of_the_driver_do_not_travel_with_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray writes the runtime environment of an actor into its logs."""
    from ray.tune.execution.class_cache import _ActorClassCache

    from vse.cluster.ray_private import keep_credentials_from_trials

    keep_credentials_from_trials()
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SECURITY_TOKEN", "AWS_SESSION_TOKEN"):
        monkeypatch.setenv(name, "planted")
    trial = _ActorClassCache().get(type("Trial", (), {}))
    variables = trial._default_options["runtime_env"]["env_vars"]
    assert "PL_DISABLE_FORK" in variables  # Tune's own, so this is where they would be
    assert "planted" not in variables.values()
