"""Targets of the Makefile hand paths on as they are given, whatever is in them."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ODD = 'a b\'s "c" $HOME `d` %e'
# Stands for Python: notes how it was called, and as `-m venv DIR` puts itself there.
STUB = f"""#!{sys.executable}
import json, os, shutil, sys
from pathlib import Path
if sys.argv[1] == "-c" and len(sys.argv) == 3:  # the version is checked
    sys.version_info = tuple(map(int, os.environ.get("VERSION", "3.11").split(".")))
    exec(sys.argv[2])
with open(os.environ["CALLS"], "a") as calls:
    calls.write(json.dumps(sys.argv) + "\\n")
if sys.argv[1:3] == ["-m", "venv"]:
    Path(sys.argv[3], "bin").mkdir(parents=True)
    shutil.copy(sys.argv[0], Path(sys.argv[3], "bin", "python"))
if sys.argv[1] == "-c":
    print("address of", sys.argv[3])
"""

pytestmark = [pytest.mark.process, pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / f"checkout {ODD}"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    stub = tmp_path / "stub"
    stub.write_text(STUB)
    stub.chmod(0o755)
    return folder


def make(checkout: Path, *arguments: str, refused: str = "", **variables: str) -> tuple[str, list[list[str]]]:
    """What make printed, and the calls of Python. If `refused` is given, make fails with this line."""
    calls = checkout.parent / "calls"
    calls.unlink(missing_ok=True)
    ours = "MAKE|MFLAGS|ARGS|VSE_|VENV|WORKSPACE"
    names = {name: value for name, value in os.environ.items() if not re.match(ours, name)}
    result = subprocess.run(
        ["make", "-C", str(checkout), *arguments, f"PYTHON={checkout.parent / 'stub'}"],
        env=names | {"CALLS": str(calls)} | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode == 0) == (not refused), result.stderr
    assert refused in result.stderr.splitlines() or not refused, result.stderr
    return result.stdout, [json.loads(line) for line in calls.read_text().splitlines()] if calls.exists() else []


def test_paths_arrive_as_they_are(checkout: Path) -> None:
    given = [f"VENV=env {ODD}", f"WORKSPACE=work {ODD}"]
    _, calls = make(checkout, "sweep", *given, "ARGS=sweep.name='a b' data.root=\"$CALLS\"")
    assert calls[0][1:] == ["-m", "venv", f"env {ODD}"]
    last = ["jobs/sweep_alpha.py", "--workspace", f"work {ODD}", "sweep.name=a b", f"data.root={checkout.parent}/calls"]
    assert calls[-1] == [f"env {ODD}/bin/python", *last]
    assert {path.name for path in checkout.iterdir()} == {
        f"env {ODD}",
        *("Makefile", "pyproject.toml", "constraints.txt"),
    }


def test_an_environment_is_made_once(checkout: Path) -> None:
    given = [f"VENV=env {ODD}", f"WORKSPACE=work {ODD}"]
    assert len(make(checkout, "install", *given)[1]) == 3  # venv, pip and the package
    assert len(make(checkout, "install-dev", *given)[1]) == 2  # pip and what tests need
    assert make(checkout, "install-dev", *given)[1] == make(checkout, "install", *given)[1] == []
    os.utime(checkout / "constraints.txt", (4e9, 4e9))
    assert len(make(checkout, "install", *given)[1]) == 2


@pytest.mark.parametrize("version", ["3.10", "3.14"])
def test_an_unsupported_python_is_refused_before_there_is_an_environment(checkout: Path, version: str) -> None:
    required = re.search(r'^requires-python = "(.*)"$', (checkout / "pyproject.toml").read_text(), re.MULTILINE)
    assert required is not None
    assert required[1] == ">=3.11,<3.14"  # as in the Makefile
    line = f"make install: PYTHON={checkout.parent}/stub is not Python 3.11 to 3.13; name one, as in make install "
    assert make(checkout, "install", VERSION=version, refused=f"{line}PYTHON=python3.12")[1] == []
    assert not (checkout / ".venv").exists()
    assert len(make(checkout, "install", VERSION="3.13")[1]) == 3


@pytest.mark.parametrize("target", ["evidence", "evidence-faults", "ui"])
def test_a_workspace_of_the_environment(checkout: Path, target: str) -> None:
    variables = {"VSE_WORKSPACE": f"work {ODD}", "VENV": f"env {ODD}"}
    _, calls = make(checkout, target, **variables)
    python, *last = calls[-1]
    assert python == f"env {ODD}/bin/python"
    if target == "ui":
        assert calls[-3][3:] == calls[-2][3:] == [f"work {ODD}"]
        assert last[:3] == ["-m", "mlflow", "ui"]
        assert last[last.index("--backend-store-uri") + 1] == f"address of work {ODD}"
    else:
        assert last[last.index("--workspace") + 1] == f"work {ODD}" + "/faults" * (target == "evidence-faults")


@pytest.mark.parametrize("target", ["test", "test-slow", "lint", "benchmark"])
def test_targets_for_developers_use_that_environment(checkout: Path, target: str) -> None:
    _, calls = make(checkout, target, f"VENV=env {ODD}", "ARGS=-k 'one or two'")
    assert {call[0] for call in calls[1:]} == {f"env {ODD}/bin/python"}
    if target == "lint":
        assert calls[-1][1:] == ["-m", "pyrefly", "check", "--python-interpreter-path", f"env {ODD}/bin/python"]
    else:
        assert calls[-1][-2:] == ["-k", "one or two"]


def test_the_environment_is_removed_and_nothing_else(checkout: Path) -> None:
    (checkout / "a").mkdir()
    given = [f"VENV={ODD}"]
    make(checkout, "install", *given)
    make(checkout, "clean-venv", *given)
    assert (checkout / "a").exists()
    assert not (checkout / ODD).exists()


def test_without_anything_given_it_is_the_folder_workspace(checkout: Path) -> None:
    assert make(checkout, "sweep")[1][-1] == [".venv/bin/python", "jobs/sweep_alpha.py", "--workspace", "workspace"]
