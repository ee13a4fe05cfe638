"""Locks of local folders: one process at a time, free after a death, one line if they cannot be had."""

import errno
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from vse.errors import InputError
from vse.storage.folder import Folder

HOLDER = """
import sys, time
from vse.storage.folder import Folder
with Folder.open(sys.argv[1]).locked():
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.process
def test_a_killed_process_releases_its_lock(tmp_path: Path) -> None:
    folder = Folder.open(tmp_path)
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    with holder.stdout:
        assert holder.stdout.readline() == b"held\n"
    assert folder.is_locked()
    with pytest.raises(TimeoutError), folder.locked(wait=0):
        pass
    holder.kill()
    holder.wait()
    with folder.locked(wait=10):
        assert folder.is_locked()


@pytest.mark.parametrize("wait", [30.0, float("inf")])
def test_a_waiting_process_gets_the_lock_when_it_is_free(tmp_path: Path, wait: float) -> None:
    folder, taken, seconds = Folder.open(tmp_path), threading.Event(), 0.3

    def hold() -> None:
        with folder.locked():
            taken.set()
            time.sleep(seconds)

    other = threading.Thread(target=hold)
    other.start()
    assert taken.wait(10)
    started = time.monotonic()
    with folder.locked(wait):
        assert time.monotonic() - started >= seconds / 2
    other.join()


def test_the_wait_for_a_lock_has_a_deadline(tmp_path: Path) -> None:
    folder = Folder.open(tmp_path)
    with folder.locked():
        started = time.monotonic()
        with pytest.raises(TimeoutError, match="another process holds its lock"), folder.locked(0.3):
            pass
        assert 0.3 <= time.monotonic() - started < 5


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.ENOLCK, "has no locks"), (errno.ENOSYS, "has no locks"), (errno.EPERM, "cannot write its lock")],
)
def test_a_file_system_that_refuses_locks_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, "refused")

    monkeypatch.setattr("fcntl.flock", refuse)
    with pytest.raises(InputError, match=words) as refusal, Folder.open(tmp_path).locked(wait=1):
        pass
    assert str(tmp_path) in str(refusal.value)
    assert "\n" not in str(refusal.value)
