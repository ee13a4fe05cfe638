"""Locks between processes: who holds one, who waits how long, and what a death leaves."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from vse.storage.file_lock import take

HOLDER = """
import fcntl, sys, time
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(60)
"""


def test_one_at_a_time_and_free_when_closed(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("a") as one, (tmp_path / "lock").open("a") as other:
        assert take(one)
        assert not take(other, wait=0)
        started = time.monotonic()
        assert not take(other, wait=0.3)
        assert 0.3 <= time.monotonic() - started < 5
        one.close()
        assert take(other, wait=0)


@pytest.mark.parametrize("wait", [30.0, float("inf")])
def test_who_waits_gets_it_when_it_is_free(tmp_path: Path, wait: float) -> None:
    one = (tmp_path / "lock").open("a")
    assert take(one, wait=0)
    threading.Timer(0.3, one.close).start()
    with (tmp_path / "lock").open("a") as other:
        started = time.monotonic()
        assert take(other, wait)
        assert time.monotonic() - started >= 0.2


def test_a_process_that_is_killed_frees_what_it_held(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path / "lock")], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    with holder.stdout:
        assert holder.stdout.readline() == b"held\n"
    with (tmp_path / "lock").open("a") as file:
        assert not take(file, wait=0)
        holder.kill()
        holder.wait()
        assert take(file, wait=10)
