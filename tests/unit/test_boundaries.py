"""Import directions and house policies hold in every source; and the checks can fail."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.unit.boundaries import LOOSE, ONLY_IN, breaches, circles, imports_of

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "platform" / "vse"
SOURCES = sorted(
    path for room in ("platform", "jobs", "search_spaces", "tests") for path in (ROOT / room).rglob("*.py")
)
TEXTS = [
    *SOURCES,
    *(path for name in ("*.md", "*.toml", "*.yaml", "*.txt", "Makefile", "NOTICE") for path in ROOT.glob(name)),
    *(path for path in (ROOT / ".ci").iterdir() if path.is_file()),
]
LONGEST_FILE = 400
# One letter of each stands in brackets, or this file would be its own finding
UNFINISHED = re.compile(r"\bTO[D]O\b|\bFIX[M]E\b|\bXX[X]\b|NotImplemented[E]rror|\bx[f]ail\b")
INDEX_ADDRESS = re.compile(r"pypi[.]org|--index[-]url|--extra[-]index|--find[-]links")
OF_ONE_MACHINE = re.compile(r"(?<![\w.])/wor[k]/|/roo[t]/")


@pytest.mark.seconds
def test_imports_point_one_way() -> None:
    assert sorted(set(breaches(PACKAGE))) == []


@pytest.mark.parametrize(
    ("file", "source", "words"),
    [
        ("config.py", "from vse import sweeps", "comes after"),
        ("models/vsepp.py", "def f():\n    from vse.objectives import ranking", "meet in training.step"),
        ("objectives/ranking.py", "import vse.models.vsepp", "meet in training.step"),
        ("models/vsepp.py", "from ..objectives import ranking", "meet in training.step"),
        ("training/step.py", "import ray", "pure and imports ray"),
        ("training/step.py", "from ray import train", "pure and imports ray"),
        ("training/loop.py", "import mlflow", "only tracking"),
        ("sweeps/experiment.py", "from ray._private import state", "only module that may"),
        ("sweeps/experiment.py", "from ray.tune.execution import class_cache", "only module that may"),
        ("cluster/process_group.py", "from ray.train.torch.config import _TorchBackend", "private _TorchBackend"),
        ("data/coco.py", "import importlib\nimportlib.import_module('mlflow.entities')", "only tracking"),
        ("text/components.py", "import spacy.tokens", "only text.parser"),
        ("models/vsepp.py", "from torchvision import models", "only features"),
        ("stages/pipeline.py", "import argparse", "only cli.command"),
        ("sweeps/alpha.py", "import ray\nray.init()", "ray.init"),
        ("training/step.py", "from vse.data.scenes import meaning", "never sees ground truth"),
        ("training/loop.py", "def f(source):\n    return source.true_pairs('train')", "reads ground truth"),
        ("training/inputs.py", "def f(source):\n    return source.annotate()", "reads ground truth"),
        ("brand_new_room.py", "from vse.config import knob", "no place in ORDER"),
    ],
)
def test_a_breach_is_found(tmp_path: Path, file: str, source: str, words: str) -> None:
    package = tmp_path / "vse"
    for name in (
        "config.py",
        "sweeps/__init__.py",
        "objectives/ranking.py",
        "models/vsepp.py",
        "data/scenes/meaning.py",
    ):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text("")
    (package / file).parent.mkdir(parents=True, exist_ok=True)
    (package / file).write_text(source)
    assert any(words in breach for breach in breaches(package)), list(breaches(package))


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("cluster/runtime.py", "import ray\nray.init()"),
        ("tracking/store.py", "import mlflow"),
        ("stages/train.py", "import ray"),
        ("training/inputs.py", "def _truth(source):\n    return source.true_pairs('train')"),
        ("features/backbones.py", "import torchvision"),
        ("stages/pipeline.py", "from vse.stages import train"),
    ],
)
def test_what_is_allowed_is_no_breach(tmp_path: Path, file: str, source: str) -> None:
    for name, text in (("stages/train.py", ""), (file, source)):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert list(breaches(tmp_path)) == []


@pytest.mark.seconds
def test_no_modules_import_each_other() -> None:
    assert circles(PACKAGE) == []


def test_a_circle_is_found(tmp_path: Path) -> None:
    for name, source in {
        "a": "from vse import b",
        "b": "def f():\n    import vse.c",
        "c": "from vse.a import x",
        "d": "import vse.a",
    }.items():
        (tmp_path / f"{name}.py").write_text(source)
    assert circles(tmp_path) == [["a", "b", "c"]]


def test_modules_lie_in_folders() -> None:
    assert len([path for path in PACKAGE.glob("*.py") if path.name != "__init__.py"]) <= LOOSE


def test_jobs_and_search_spaces_leave_libraries_to_the_package() -> None:
    for room in ("jobs", "search_spaces"):
        for path in (ROOT / room).rglob("*.py"):
            names = {name.split(".")[0] for name, _ in imports_of(path.read_text(), path.stem)}
            assert not names & (set(ONLY_IN) - {"argparse"}), path
            assert "ray.init" not in path.read_text(), path


def test_the_source_root_is_no_package() -> None:
    """A package called `platform` would hide the standard library's module of that name."""
    assert not (ROOT / "platform" / "__init__.py").exists()
    import platform

    assert platform.python_version()


def test_no_job_hides_a_module() -> None:
    """`python jobs/x.py` puts jobs/ first on the path."""
    libraries = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"])
    taken = sys.stdlib_module_names | {re.split(r"[\[<>=]", name)[0].replace("-", "_") for name in libraries}
    assert not {path.stem for path in (ROOT / "jobs").glob("*.py")} & taken


@pytest.mark.process
def test_traps_of_libraries_are_refused_by_the_lint() -> None:
    """Such as one that ends every Ray on the host: pyproject.toml has them all, each with its reason."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    banned = settings["flake8-tidy-imports"]["banned-api"]
    assert {"ray.cluster_utils.AutoscalingCluster", "ray.tune.Tuner.restore"} < set(banned)
    text = "import mlflow\nimport ray\n" + "".join(f"{name}()\n" for name in banned)
    check = [sys.executable, "-m", "ruff", "check", "--output-format", "json", "--stdin-filename", "tests/new.py", "-"]
    done = subprocess.run(check, input=text, cwd=ROOT, capture_output=True, text=True, check=False)
    found = [each for each in json.loads(done.stdout) if each["code"] == "TID251"]
    assert [each["message"].split("`")[1] for each in found] == list(banned)


def finished(text: str) -> bool:
    return UNFINISHED.search(text) is None


@pytest.mark.seconds
def test_nothing_is_left_for_later() -> None:
    assert [str(path) for path in SOURCES if not finished(path.read_text(encoding="utf-8"))] == []
    assert not finished("raise NotImplemented" + "Error")
    assert not finished("# TO" + "DO: later")


def test_files_stay_readable() -> None:
    long = {str(path): count for path in SOURCES if (count := len(path.read_text().splitlines())) > LONGEST_FILE}
    assert long == {}


def test_no_address_of_a_package_index_and_no_path_of_one_machine() -> None:
    for path in TEXTS:
        text = path.read_text(encoding="utf-8")
        assert INDEX_ADDRESS.search(text) is None, path
        assert OF_ONE_MACHINE.search(text) is None, path
    assert INDEX_ADDRESS.search("pip install --index-" + "url x")
    assert OF_ONE_MACHINE.search("cd /wo" + "rk/main")


def test_every_requirement_is_pinned() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *(r for extra in project["optional-dependencies"].values() for r in extra)]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][A-Za-z0-9.!]*", line) for line in lines)
    pinned = {re.sub(r"[-_.]+", "-", line.split("==")[0]).lower() for line in lines}
    assert len(pinned) == len(lines)
    names = {re.sub(r"[-_.]+", "-", re.split(r"[\[<>=;\s]", requirement)[0]).lower() for requirement in wanted}
    assert names - pinned == set()


def test_the_libraries_in_use_are_the_pinned_ones() -> None:
    from importlib import metadata

    for line in (ROOT / "constraints.txt").read_text().splitlines():
        name, version = line.split("==")
        if name.lower() in ("ray", "torch", "torchvision", "mlflow", "hyperopt", "spacy", "pyarrow", "numpy"):
            assert metadata.version(name).split("+")[0] == version
