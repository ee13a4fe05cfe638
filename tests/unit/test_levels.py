"""What starts a process or a server carries the mark `process`; `make test` runs the rest."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.levels import selected, slow_but, started

ROOT = Path(__file__).parents[2]

A_FILE = """
import socket, subprocess, sys, time
import pytest

@pytest.fixture(scope="module")
def server():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        yield

def test_harmless():
    subprocess.run(["git", "--version"], check=True)

def test_process():
    subprocess.run([sys.executable, "-c", ""], check=True)

def test_server(server):
    pass

@pytest.mark.process
def test_marked():
    subprocess.run([sys.executable, "-c", ""], check=True)

def compute():
    end = time.process_time() + 0.3
    while time.process_time() < end:
        pass

def test_long():
    compute()

@pytest.mark.seconds
def test_marked_as_long():
    compute()
"""


@pytest.mark.parametrize(
    ("event", "args", "what"),
    [
        ("subprocess.Popen", ("bash", ["bash"], None, None), "subprocess.Popen bash"),
        ("subprocess.Popen", ("git", ["git"], None, None), ""),
        ("os.fork", (), "os.fork"),
        ("socket.bind", (None, ("127.0.0.1", 0)), "a server at 127.0.0.1"),
        ("socket.bind", (None, ("::1", 0)), ""),
        ("socket.bind", (None, "/tmp/socket"), ""),
        ("open", ("file", "r", 0), ""),
    ],
)
def test_events_that_need_the_mark(event: str, args: tuple[object, ...], what: str) -> None:
    assert started(event, args) == what


def test_all_parameters_but_those_that_are_kept_are_slow() -> None:
    one, kept, several = slow_but(["a", "b", ("c", 1)], "b")
    assert kept == "b"
    assert [each.values for each in (one, several)] == [("a",), ("c", 1)]
    assert [mark.name for each in (one, several) for mark in each.marks] == ["slow", "slow"]
    with pytest.raises(AssertionError, match=r"no parameters: \['d'\]"):
        slow_but(["a"], "d")


@pytest.fixture(scope="module")
def letters(request: pytest.FixtureRequest) -> set[str]:
    return selected(request, "letter")


@pytest.mark.parametrize("letter", ["a", "b"])
def test_a_fixture_knows_what_is_asked_of_it(letters: set[str], letter: str) -> None:
    assert letter in letters
    assert letters <= {"a", "b"}


@pytest.mark.process
def test_a_test_without_the_mark_fails(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "from tests import levels\n"
        "from tests.levels import pytest_collection_modifyitems, pytest_runtest_setup, pytest_runtest_teardown\n"
        "levels.MOST_SECONDS = 0.2\n"
    )
    (tmp_path / "test_file.py").write_text(A_FILE)
    options = ["-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), "-W", "ignore"]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    errors = [line.split()[1].split("::")[1] for line in done.stdout.splitlines() if line.startswith("ERROR")]
    assert errors == ["test_process", "test_server", "test_long"], done.stdout + done.stderr
    assert done.stdout.count("mark it `process`") >= 2
    assert "mark it `seconds`" in done.stdout
