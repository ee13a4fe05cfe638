"""A package with a family, presets and a task, installed next to this one: no file of this repository knows it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.processes import ROOT, run_many

pytestmark = pytest.mark.process

TEMPLATE = ROOT / "docs" / "extension"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the template package, installed by pip without an index."""
    folder = tmp_path_factory.mktemp("packages")
    source = tmp_path_factory.mktemp("source")
    for file in TEMPLATE.rglob("*"):
        if file.suffix in (".py", ".toml"):
            (source / file.relative_to(TEMPLATE)).parent.mkdir(parents=True, exist_ok=True)
            (source / file.relative_to(TEMPLATE)).write_bytes(file.read_bytes())
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet"]
    subprocess.run(
        [sys.executable, "-m", "pip", "install", *offline, "--target", str(folder), str(source)],
        check=True,
        timeout=200,
    )
    return folder


@pytest.mark.slow
def test_its_family_trains_and_its_task_measures(installed: Path, tmp_path: Path) -> None:
    shared = ["--workspace", str(tmp_path / "w"), "ray.address=local"]
    size = ["data.num_train=24", "data.num_val=8", "data.num_test=8", "train.epochs=1", "model.dim=32"]
    train, trained_again, listed = run_many(
        [
            ["train", "--preset", "mean_of_words_small", *size, *shared],
            ["train", "--preset", "mean_of_words_small", *size, *shared],
            ["evaluate", "--help"],
        ],
        tmp_path,
        installed,
    )
    assert train[0] == 0, train[2]
    assert "was trained already" in trained_again[2]
    assert "far_off" in listed[1]
    (run,) = (tmp_path / "w" / "runs").iterdir()
    assert json.loads((run / "config.json").read_text())["model"]["name"] == "mean_of_words"
    (measured,) = run_many(
        [["evaluate", f"run={run.name}", "tasks=far_off", "measure.far_off.more_than=0", *shared[:2]]],
        tmp_path,
        installed,
    )
    assert measured[0] == 0, measured[2]
    assert "far off" in measured[1]


def test_a_broken_package_is_named_in_one_line(tmp_path: Path) -> None:
    distribution = tmp_path / "packages" / "vse_broken-0.1.dist-info"
    distribution.mkdir(parents=True)
    (distribution / "METADATA").write_text("Metadata-Version: 2.1\nName: vse-broken\nVersion: 0.1\n")
    points = "[vse.components]\ntask.broken = vse_broken.task\npreset.broken_scenes = vse_broken.task\n"
    (distribution / "entry_points.txt").write_text(points)
    train, others = run_many(
        [
            ["train", "--preset", "broken_scenes", "--dry-run", "--workspace", str(tmp_path / "w")],
            ["train", "--preset", "vsepp_tiny", "--dry-run", "--workspace", str(tmp_path / "w")],
        ],
        tmp_path,
        tmp_path / "packages",
    )
    line = "vse-broken 0.1: entry point preset.broken_scenes = vse_broken.task: cannot be imported (No module named"
    assert train[0] == 2
    assert train[2].splitlines()[-1].startswith(f"train: {line}")
    assert "Traceback" not in train[2]
    assert others[0] == 0, others[2]
