"""Logs of a node reach the workspace as they grow, and once more when Ray has ended."""

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from vse import node_logs
from vse.cluster.node_watch import is_up
from vse.node_logs import copy_logs, follow
from vse.storage import Folder


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "ray" / "session_1"
    (folder / "logs" / "old").mkdir(parents=True)
    (folder / "sockets").mkdir()
    (folder / "logs" / "raylet.out").write_text("started\n")
    (folder / "logs" / "old" / "worker.err").write_text("killed\n")
    (tmp_path / "ray" / "session_latest").symlink_to(folder)
    monkeypatch.chdir(folder / "sockets")  # a socket's path is limited, a relative one short
    return folder


def test_only_what_changed_is_copied(session: Path, tmp_path: Path) -> None:
    target, known = Folder.open(tmp_path / "kept"), dict[str, tuple[int, float]]()
    assert copy_logs(session, target, known) == 2
    assert target.names() == ("old--worker.err", "raylet.out")
    assert copy_logs(session, target, known) == 0
    with (session / "logs" / "raylet.out").open("a") as stream:
        stream.write("ended\n")
    assert copy_logs(session, target, known) == 1
    assert target.read_text("raylet.out") == "started\nended\n"


def test_of_a_long_file_the_end_is_kept(session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_logs, "LARGEST", 4)
    target = Folder.open(tmp_path / "kept")
    copy_logs(session, target, {})
    assert target.read_text("raylet.out") == "ted\n"


def test_what_cannot_be_written_is_tried_again(session: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("in the way")
    target, known = Folder.open(tmp_path / "kept"), dict[str, tuple[int, float]]()
    assert copy_logs(session, target, known) == 0
    (tmp_path / "kept").unlink()
    assert copy_logs(session, target, known) == 2


def test_it_ends_with_ray(session: Path, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as raylet:
        raylet.bind("raylet")
        raylet.listen()
        os.chdir(tmp_path)
        if len(str(session / "sockets" / "raylet")) > 100:
            pytest.skip("the path of the temporary folder is too long for a socket")
        assert is_up(session / "sockets" / "raylet")
        thread = threading.Thread(target=follow, args=(str(tmp_path / "w"), tmp_path / "ray", 0.05))
        thread.start()
        kept = tmp_path / "w" / "logs" / "session_1" / socket.gethostname()
        deadline = time.monotonic() + 10
        while not (kept / "raylet.out").exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
    (session / "logs" / "last.out").write_text("the end\n")
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert (kept / "last.out").read_text() == "the end\n"
