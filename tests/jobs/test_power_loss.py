"""A power cut: the last written file of each kind is half there, or empty. What lacks is found and made again.

Never a traceback, never another number: whatever was damaged, the same call ends with what it ended with before.
"""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.levels import slow_but
from tests.unit.asked import asked
from vse.config import canonical, override
from vse.errors import InputError
from vse.presets import preset
from vse.stages.measuring.stage import measure_run
from vse.stages.train import run_training
from vse.stages.trained import read_config
from vse.storage.folder import Folder
from vse.sweeps import engine
from vse.sweeps.ledger import Ledger, open_sweep
from vse.training.config import RunConfig
from vse.workspace.journal import read
from vse.workspace.layout import Workspace

CUTS: dict[str, Callable[[bytes], bytes]] = {"half": lambda data: data[: len(data) // 2], "empty": lambda data: b""}
DATA = (
    "datasets/*/images.parquet",
    "datasets/*/captions.parquet",
    "datasets/*/manifest.json",
    "features/*/*/shard-*.parquet",
    "features/*/*/shard-*.json",
    "features/*/*/index.parquet",
    "features/*/*/rejects.parquet",
    "features/*/*/manifest.json",
    "cache/arrays/*/map-*.npy",
    "language/*/*/parses-*.parquet",
    "language/*/*/manifest.json",
    "language/*/*/adversaries.jsonl",
    "language/*/*/parses/parses-*.parquet",
    "language/*/*/parses/manifest.json",
)
RUN = (
    "runs/*/config.json",
    "runs/*/journal.jsonl",
    "runs/*/result.json",
    "runs/*/evaluation/measures-*.json",
    *(
        f"runs/*/checkpoints/epoch-*/{file}"
        for file in (
            "model.safetensors",
            "optimizer.safetensors",
            "progress.json",
            "vocabulary.json",
            "context.json",
            "config.json",
            "manifest.json",
        )
    ),
)


CHECKPOINT = "runs/*/checkpoints/epoch-*"
MADE = [(pattern, how) for pattern in (*DATA, *RUN) for how in CUTS]
CUT_CHECKPOINTS = [(pattern, how) for pattern, how in MADE if "checkpoints" in pattern]


def configured() -> RunConfig:
    small = {"data.num_train": 16, "data.num_val": 6, "data.num_test": 5, "data.num_shifted": 0}
    return override(preset("univse_tiny"), {**small, "model.dim": 16, "train.epochs": 3, "train.batch_size": 32})


def everything(workspace: Workspace) -> dict[str, Any]:
    """All stages, as far as they are missing; every number that comes out, and the bits of the model."""
    result = run_training(configured(), workspace)
    options = asked(splits=("test",), attacks__words=("shared",))
    story = read(result.folder.local("journal.jsonl"))
    return {
        "metrics": {name: value for name, value in result.metrics.items() if not name.endswith("seconds")},
        "best": (result.best, result.epochs),
        "weights": hashlib.sha256(result.checkpoint.read_bytes("model.safetensors")).hexdigest(),
        "measures": measure_run(result.folder, workspace, *options),
        "configuration": read_config(result.folder),
        "run": (story.status, story.run, sorted({step for key, step in story.metrics if key.startswith("train/")})),
    }


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    root = tmp_path_factory.mktemp("power") / "workspace"
    return root, everything(Workspace.open(str(root)))


@pytest.fixture
def copied(done: tuple[Path, dict[str, Any]], tmp_path: Path) -> Path:
    return Path(shutil.copytree(done[0], tmp_path / "workspace"))


def cut(root: Path, pattern: str, how: str) -> Path:
    """Damage the last written file of a kind."""
    path = max(root.glob(pattern), key=lambda found: (found.stat().st_mtime_ns, str(found)))
    whole = path.read_bytes()
    assert whole
    path.write_bytes(CUTS[how](whole))
    return path


@pytest.mark.seconds
@pytest.mark.parametrize(
    ("pattern", "how"),
    slow_but(
        MADE,
        ("datasets/*/manifest.json", "empty"),
        ("features/*/*/shard-*.parquet", "half"),
        ("features/*/*/index.parquet", "empty"),
        ("cache/arrays/*/map-*.npy", "half"),
        ("language/*/*/parses-*.parquet", "half"),
        ("language/*/*/adversaries.jsonl", "half"),
        ("runs/*/config.json", "empty"),
        ("runs/*/journal.jsonl", "half"),
        ("runs/*/evaluation/measures-*.json", "half"),
        (f"{CHECKPOINT}/model.safetensors", "half"),
    ),
)
def test_what_was_cut_is_made_again(done: tuple[Path, dict[str, Any]], copied: Path, pattern: str, how: str) -> None:
    path = cut(copied, pattern, how)
    if pattern.startswith(("language", "features", "cache")):
        for measured in copied.glob("runs/*/evaluation/measures-*.json"):
            measured.unlink()  # or nobody would look
    damaged = path.read_bytes()
    assert everything(Workspace.open(str(copied))) == done[1]
    if not path.match("*/checkpoints/*/*") and not path.match("shard-*.json"):  # passed over: others do without
        assert not path.exists() or path.read_bytes() != damaged


@pytest.mark.seconds
@pytest.mark.parametrize(
    ("pattern", "how"),
    slow_but(
        CUT_CHECKPOINTS,
        *((f"{CHECKPOINT}/{name}", how) for name, how in (("model.safetensors", "half"), ("manifest.json", "empty"))),
    ),
)
def test_a_stopped_run_with_a_cut_checkpoint(
    done: tuple[Path, dict[str, Any]], copied: Path, pattern: str, how: str
) -> None:
    (result,) = copied.glob("runs/*/result.json")
    result.unlink()
    cut(copied, pattern, how)
    assert everything(Workspace.open(str(copied))) == done[1]


@pytest.mark.parametrize("how", CUTS)
def test_a_ledger_and_a_definition(tmp_path: Path, how: str) -> None:
    workspace, definition = Workspace.open(str(tmp_path)), {"space": {"a": [1, 2]}, "seeds": [0]}
    folder = open_sweep(workspace, "curve", definition)
    ledger = Ledger(folder)
    for number in (1, 2):
        ledger.finish({"a": number}, {"value": number / 3}, 1.0)
    cut(tmp_path, "sweeps/*/ledger.jsonl", how)
    again = Ledger(folder)
    left = [entry.changes["a"] for entry in again]
    assert left == ([1] if how == "half" else []) or left == []
    for changes in ({"a": number} for number in (1, 2) if number not in left):
        again.finish(changes, {"value": changes["a"] / 3}, 1.0)
    assert {entry.changes["a"]: entry.result["value"] for entry in Ledger(folder)} == {1: 1 / 3, 2: 2 / 3}
    cut(tmp_path, "sweeps/*/definition.json", how)
    assert open_sweep(workspace, "curve", definition) == folder
    assert folder.read_json("definition.json") == canonical(definition)
    with pytest.raises(InputError, match="already used for another sweep"):
        open_sweep(workspace, "curve", {"space": {"a": [1, 3]}, "seeds": [0]})


@pytest.mark.parametrize("how", CUTS)
@pytest.mark.parametrize("name", ["summary.json", "results.json", "alpha.png", "report.html"])
def test_a_report_that_is_not_whole_is_written_again(tmp_path: Path, name: str, how: str) -> None:
    folder = Folder.open(tmp_path)
    outputs = {file: f"{folder}/{file}" for file in ("results.json", "alpha.png", "report.html")}
    for file in outputs:
        folder.write_text(file, f"the content of {file}")
    summary = {
        "fingerprints": {"results": "1234"},
        "details": {"files": {name: folder.entry(name) for name in outputs}},
    }
    folder.write_json("summary.json", summary)
    assert engine.reported(folder, "1234")
    assert not engine.reported(folder, "4321")
    cut(tmp_path, name, how)
    assert not engine.reported(folder, "1234")


@pytest.mark.parametrize("how", CUTS)
def test_the_state_of_shipping_is_found_out_again(tmp_path: Path, how: str) -> None:
    from vse.tracking.shipping import Shipper

    home = tmp_path / "mlflow"
    home.mkdir()
    shipper = Shipper(str(tmp_path), "http://127.0.0.1:1")
    shipper._state_file.write_text(json.dumps({"runs/x": {"run_id": "1", "offset": 10}}))
    assert shipper._load().keys() == {"runs/x"}
    cut(tmp_path, "mlflow/shipped-*.json", how)
    assert shipper._load() == {}
