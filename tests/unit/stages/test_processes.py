"""Pools of processes: what they compute, and that they end with a process that is killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from vse.stages.processes import process_pool

pytestmark = pytest.mark.process

SCRIPT = """
import os, time
from vse.stages.processes import process_pool

if __name__ == "__main__":
    with process_pool(2) as pool:
        waiting = [pool.submit(time.sleep, 0 if {idle} else 600) for _ in range(2)]
        print(*pool._processes, flush=True)
        time.sleep(600)
"""
KEY = "VSE_TEST_OF_POOLS"


def mark() -> None:
    os.environ[KEY] = "begun"


def test_a_process_begins_with_a_function() -> None:
    with process_pool(1, mark) as pool:
        assert pool.submit(os.getenv, KEY).result() == "begun"
        assert pool.submit(os.getppid).result() == os.getpid()


@pytest.mark.parametrize("idle", [False, True])
def test_a_killed_process_leaves_none_behind(tmp_path: Path, idle: bool) -> None:
    """Whether they work or wait for work."""
    file = tmp_path / "script.py"
    file.write_text(SCRIPT.format(idle=idle))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    with subprocess.Popen([sys.executable, str(file)], stdout=subprocess.PIPE, text=True, env=environment) as parent:
        assert parent.stdout is not None
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(workers) == 2
        until(lambda: all(begun(pid) for pid in workers))
        parent.send_signal(signal.SIGKILL)
    until(lambda: not any(alive(pid) for pid in workers))


def until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def begun(pid: int) -> bool:
    """Whether a process has started the thread that waits for its parent."""
    return len(list(Path(f"/proc/{pid}/task").iterdir())) > 1


def alive(pid: int) -> bool:
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
