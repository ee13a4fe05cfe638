"""What must be the same after a kill, read from a workspace with plain readers."""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.faults.scenarios import Place

# Times differ between any two runs, addresses between any two workspaces.
_TIMES = ("seconds", "images_per_second", "trained", "attempts", "started", "checksum")


def tables(workspace: Path) -> dict[str, Any]:
    """Final numbers by file: summaries' headlines, results of runs, measures, sweeps' results and ledgers."""
    found: dict[str, Any] = {}
    for path in sorted(workspace.rglob("summary*.json")):
        found[_name(path, workspace)] = _plain(json.loads(path.read_text())["headline"])
    for pattern in ("runs/*/result.json", "sweeps/*/results.json"):
        for path in sorted(workspace.glob(pattern)):
            found[_name(path, workspace)] = _plain(json.loads(path.read_text()))
    for path in sorted(workspace.glob("runs/*/evaluation/measures-*.json")):
        found[_name(path, workspace)] = _plain(json.loads(path.read_text())["metrics"])
    for path in sorted(workspace.glob("sweeps/*/ledger.jsonl")):
        last = {e["id"]: e for line in path.read_text().splitlines() if line for e in [json.loads(line)]}
        found[_name(path, workspace)] = _plain({i: [e["state"], e["result"]] for i, e in sorted(last.items())})
    return found


def checkpoints(workspace: Path) -> dict[str, str]:
    """SHA-256 of the weights of every kept checkpoint."""
    paths = sorted(workspace.glob("runs/*/checkpoints/*/model.safetensors"))
    return {_name(path, workspace): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def shards(workspace: Path) -> list[str]:
    """What is wrong with feature shards: images lost, in two shards, or shards that no manifest names."""
    wrong: list[str] = []
    for manifest in sorted(workspace.glob("features/*/*/manifest.json")):
        files = json.loads(manifest.read_text())["files"]
        index = pq.read_table(manifest.with_name("index.parquet")).to_pydict()
        records = next(workspace.glob("datasets/*/images.parquet"))
        images = set(pq.read_table(records).column("id").to_pylist())
        wrong += [f"image {image} is lost" for image in sorted(images - set(index["image"]))]
        held = Counter(
            i for p in sorted(manifest.parent.glob("shard-*.parquet")) for i in pq.read_table(p)["image"].to_pylist()
        )
        wrong += [f"image {image} is in {count} shards" for image, count in held.items() if count > 1]
        for path in sorted(manifest.parent.glob("shard-*.parquet")):
            if path.name not in files:
                wrong.append(f"{path.name} is in no manifest")
            elif hashlib.sha256(path.read_bytes()).hexdigest() != files[path.name]["sha256"]:
                wrong.append(f"{path.name} differs from its manifest")
    return wrong


def tracked(store: Path) -> tuple[dict[str, dict[str, list[int]]], list[str]]:
    """({run: {metric of epochs: steps}} of MLflow's database, what is there twice)."""
    from mlflow import MlflowClient  # slow to import, and only the comparison needs it

    client = MlflowClient(f"sqlite:///{store}")
    found: dict[str, dict[str, list[int]]] = {}
    twice: list[str] = []
    for experiment in client.search_experiments():
        for run in client.search_runs([experiment.experiment_id], max_results=1000):
            name = run.data.tags.get("vse.run_id", "")
            if not name:
                twice.append(f"run {run.info.run_name} without an identity")
            if name in found:
                twice.append(f"run {name} twice")
            steps: dict[str, list[int]] = {}
            for key in run.data.metrics:
                steps[key] = sorted(point.step for point in client.get_metric_history(run.info.run_id, key))
                twice += [f"{name}: {key} twice at {s}" for s, n in Counter(steps[key]).items() if n > 1]
            found[name] = steps | {f"status {run.info.status}": []}
    return found, twice


def differences(expected: Any, found: Any, where: str = "") -> list[str]:
    """Paths at which two plain data differ; numbers may differ by 1e-9 of their size."""
    if isinstance(expected, dict) and isinstance(found, dict):
        keys = sorted({*expected, *found})
        lacking = [
            f"{where}/{k} only {'before' if k in expected else 'after'}"
            for k in keys
            if k not in found or k not in expected
        ]
        return lacking + [
            d for k in keys if k in expected and k in found for d in differences(expected[k], found[k], f"{where}/{k}")
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [
            d for k, pair in enumerate(zip(expected, found, strict=True)) for d in differences(*pair, f"{where}/{k}")
        ]
    if isinstance(expected, int | float) and isinstance(found, int | float):
        return (
            [] if abs(expected - found) <= 1e-9 * max(1.0, abs(expected)) else [f"{where}: {expected} became {found}"]
        )
    return [] if expected == found else [f"{where}: {expected!r} became {found!r}"]


def verdict(undisturbed: Place, place: Place) -> list[str]:
    """All that is wrong with a workspace after kills and restarts; nothing where it is as if nothing had happened."""
    wrong = differences(tables(undisturbed.files), tables(place.files))
    wrong += differences(checkpoints(undisturbed.files), checkpoints(place.files), "checkpoint")
    wrong += shards(place.files)
    before, _ = tracked(undisturbed.store)
    after, twice = tracked(place.store)
    return wrong + differences(before, after, "mlflow") + twice


def _name(path: Path, workspace: Path) -> str:
    return str(path.relative_to(workspace))


def _plain(data: Any) -> Any:
    if isinstance(data, dict):
        return {k: _plain(v) for k, v in data.items() if not any(str(k).endswith(t) for t in _TIMES)}
    return [_plain(v) for v in data] if isinstance(data, list) else data
