"""jobs/status.py as a user runs it: without Ray, on a terminal and in a pipe, once and again and again."""

import os
import pty
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.jobs.processes import command, environment, run_without_ray
from tests.unit.status.test_overview import write_run

pytestmark = pytest.mark.process


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    write_run(tmp_path / "workspace", "run-s0")
    return tmp_path / "workspace"


def test_lines_in_a_pipe_and_no_ray(workspace: Path, tmp_path: Path) -> None:
    at = ["status", "--workspace", str(workspace)]
    seen, absent, wrong = run_without_ray([at, ["status", "--workspace", "absent"], [*at, "watch=-1"]], tmp_path)
    assert seen[0] == 0, seen[2]
    first, last = seen[1].splitlines()
    assert first.startswith("running run run-s0: 3/10 epochs")
    assert last == f"{workspace}: runs: 1 running; 6 CPU-hours and 3 GPU-hours"
    assert (absent[0], wrong[0]) == (2, 2)
    assert "no such workspace" in absent[2]
    assert "watch" in wrong[2]


@pytest.mark.slow
def test_a_terminal_sees_changes_until_it_is_interrupted(workspace: Path) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command("status", workspace, "watch=0.3"),
        cwd=workspace.parent,
        env=environment() | {"COLUMNS": "120", "LINES": "20", "TERM": "xterm"},
        stdout=theirs,
        stderr=subprocess.PIPE,
    )
    os.close(theirs)
    try:
        text = _read_until(ours, "3/10 epochs")
        assert "\x1b[H\x1b[2J" in text  # each look replaces the one before
        write_run(workspace, "run-s0", epochs=7)
        _read_until(ours, "7/10 epochs")
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=30)
        assert process.returncode == 130
        assert b"Traceback" not in error
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _read_until(terminal: int, wanted: str) -> str:
    text, deadline = "", time.monotonic() + 60
    while wanted not in text:
        assert time.monotonic() < deadline, text
        text += os.read(terminal, 4096).decode()
    return text
