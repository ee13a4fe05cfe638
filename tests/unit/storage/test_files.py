"""Temporary folders: gone after use, and those of killed processes when the next one comes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vse.storage.files import SETTLED, scratch_folder

_KEEPS_ONE = """
import sys, time
from pathlib import Path
from vse.storage.files import scratch_folder
with scratch_folder("test", root=Path(sys.argv[1])) as folder:
    (folder / "file").write_text("mine")
    print(folder, flush=True)
    time.sleep(60)
"""


def _backdate(folder: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(folder, (then, then))


def test_a_folder_is_gone_afterwards_also_after_an_error(tmp_path: Path) -> None:
    with scratch_folder("test", root=tmp_path) as folder:
        (folder / "file").write_text("")
        assert folder.parent == tmp_path
    with pytest.raises(ValueError, match="body"), scratch_folder("test", root=tmp_path):
        raise ValueError("body")
    assert not list(tmp_path.iterdir())


def test_what_is_to_be_read_after_a_failure_stays_until_its_time(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="body"), scratch_folder("test", root=tmp_path, keep_failed=True) as kept:
        raise ValueError("body")
    _backdate(kept, 2 * SETTLED)
    with scratch_folder("test", root=tmp_path, left_after=3 * SETTLED):
        assert kept.exists()
    with scratch_folder("test", root=tmp_path):
        assert not kept.exists()


@pytest.mark.process
def test_folders_of_the_killed_go_and_those_of_the_living_stay(tmp_path: Path) -> None:
    others = [
        subprocess.Popen([sys.executable, "-c", _KEEPS_ONE, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    folders = []
    for process in others:
        assert process.stdout is not None
        folders.append(Path(process.stdout.readline().strip()))
    killed, living = others
    try:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        with scratch_folder("test", root=tmp_path):
            assert all(folder.exists() for folder in folders)  # too young to say
        for folder in folders:
            _backdate(folder, 2 * SETTLED)
        with scratch_folder("another", root=tmp_path):
            assert all(folder.exists() for folder in folders)
        with scratch_folder("test", root=tmp_path):
            assert [folder.exists() for folder in folders] == [False, True]
            assert (folders[1] / "file").read_text() == "mine"
    finally:
        living.kill()
        for process in others:
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


def test_links_are_not_followed(tmp_path: Path) -> None:
    elsewhere, root = tmp_path / "elsewhere", tmp_path / "root"
    elsewhere.mkdir()
    root.mkdir()
    (elsewhere / "file").write_text("")
    _backdate(elsewhere, 2 * SETTLED)
    (root / "vse-test-link").symlink_to(elsewhere)
    (root / "vse-test-file").write_text("")
    _backdate(root / "vse-test-file", 2 * SETTLED)
    with scratch_folder("test", root=root):
        pass
    assert (elsewhere / "file").exists()
    assert len(list(root.iterdir())) == 2
