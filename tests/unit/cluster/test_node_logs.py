"""Logs of a node reach the workspace as they grow, and once more when Ray has ended."""

import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_for
from vse.cluster import node_logs
from vse.cluster.liveness import is_up
from vse.cluster.node_logs import CopiedFile, copy_logs, follow
from vse.storage.folder import Folder


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
    target, known = Folder.open(tmp_path / "kept"), dict[str, CopiedFile]()
    assert copy_logs(session, target, known, now=0) == 2
    assert target.names() == ("old--worker.err", "raylet.out")
    assert copy_logs(session, target, known, now=0) == 0
    with (session / "logs" / "raylet.out").open("a") as stream:
        stream.write("ended\n")
    assert copy_logs(session, target, known, now=0) == 1
    assert target.read_text("raylet.out") == "started\nended\n"


def test_of_a_long_file_the_end_is_kept(session: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_logs, "LARGEST", 8)
    (session / "logs" / "raylet.out").write_text("started\nended\n")
    target = Folder.open(tmp_path / "kept")
    copy_logs(session, target, {}, now=0)
    assert target.read_text("raylet.out") == "ended\n"  # whole lines


AGENT = """started \\xff
Creating runtime env: {"env_vars": {"AWS_ACCESS_KEY_ID": "AKIAQPLANTED7EXAMPLE", "AWS_SESSION_TOKEN": "planted/+/4"}}
Serialized: "{\\\\"AWS_SECRET_ACCESS_KEY\\\\": \\\\"planted+1/x\\\\"}" {'DATABASE_PASSWORD': 'planted2'}
export AWS_SECRET_ACCESS_KEY=planted3x http://user:planted5@host/x "num_tokens": 100, "PL_DISABLE_FORK": "1"
-----BEGIN PRIVATE KEY-----
planted6
-----END PRIVATE KEY-----
ended
"""


def test_credentials_are_redacted(session: Path, tmp_path: Path) -> None:
    """Those of drivers, which this process's environment does not have."""
    (session / "logs" / "agent.log").write_bytes(AGENT.encode().replace(b"\\xff", b"\xff"))
    target = Folder.open(tmp_path / "kept")
    copy_logs(session, target, {}, now=0)
    kept = target.read_bytes("agent.log")
    assert b"planted" not in kept.lower()
    assert kept.startswith(b"started \xff\n")
    assert b'"num_tokens": 100, "PL_DISABLE_FORK": "1"' in kept
    assert kept.endswith(b"ended\n")


@pytest.mark.slow
def test_a_long_file_is_copied_less_and_less_often(session: Path, tmp_path: Path) -> None:
    target, known, log = Folder.open(tmp_path / "kept"), dict[str, CopiedFile](), session / "logs" / "raylet.out"
    log.write_bytes(bytes(node_logs.LONG + 1))
    times = []
    for minute in range(150):  # the notes of a node that lives for long grow every minute
        if copy_logs(session, target, known, now=60.0 * minute) > (minute == 0):
            times.append(minute)
        with log.open("ab") as stream:
            stream.write(b"more\n")
    assert times == [0, 1, 3, 7, 15, 31, 61, 91, 121]
    assert target.size("raylet.out") == node_logs.LONG + 1 + 121 * 5
    assert copy_logs(session, target, known, now=60.0 * 150, last=True) == 1
    assert target.size("raylet.out") == log.stat().st_size


def test_what_cannot_be_written_is_tried_again(session: Path, tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("in the way")
    target, known = Folder.open(tmp_path / "kept"), dict[str, CopiedFile]()
    assert copy_logs(session, target, known, now=0) == 0
    (tmp_path / "kept").unlink()
    assert copy_logs(session, target, known, now=0) == 2


@pytest.fixture
def raylet(session: Path, tmp_path: Path) -> Iterator[socket.socket]:
    """A socket of the session that answers until it is closed."""
    with socket.socket(socket.AF_UNIX) as found:
        found.bind("raylet")
        found.listen()
        os.chdir(tmp_path)
        if len(str(session / "sockets" / "raylet")) > 100:
            pytest.skip("the path of the temporary folder is too long for a socket")
        assert is_up(session / "sockets" / "raylet")
        yield found


@pytest.mark.seconds
def test_it_ends_with_ray(session: Path, raylet: socket.socket, tmp_path: Path) -> None:
    thread = threading.Thread(target=follow, args=(str(tmp_path / "w"), tmp_path / "ray", 0.05))
    thread.start()
    kept = tmp_path / "w" / "logs" / "session_1" / socket.gethostname()
    wait_for(kept / "raylet.out")
    assert stat.S_IMODE(session.stat().st_mode) == 0o700  # where others on this machine cannot read them either
    raylet.close()
    (session / "logs" / "last.out").write_text("the end\n")
    with (session / "logs" / "raylet.out").open("ab") as stream:
        stream.write(bytes(node_logs.LONG))
    thread.join(timeout=10)
    assert not thread.is_alive()
    assert (kept / "last.out").read_text() == "the end\n"
    assert (kept / "raylet.out").stat().st_size > node_logs.LONG


@pytest.mark.process
@pytest.mark.slow
def test_it_ends_with_the_machine(session: Path, raylet: socket.socket, tmp_path: Path) -> None:
    """Whose end sends SIGTERM to all processes at once, while a long file waits for its turn."""
    log = session / "logs" / "raylet.out"
    log.write_bytes(bytes(node_logs.LONG + 1))
    code = "import sys, pathlib, vse.cluster.node_logs as logs; logs.follow(sys.argv[1], pathlib.Path(sys.argv[2]))"
    environment = os.environ | {"PYTHONPATH": str(Path(node_logs.__file__).parents[2])}
    arguments = [sys.executable, "-c", code, str(tmp_path / "w"), str(tmp_path / "ray")]
    process = subprocess.Popen(arguments, env=environment)
    with process:
        try:
            kept = tmp_path / "w" / "logs" / "session_1" / socket.gethostname() / "raylet.out"
            wait_for(kept)
            with log.open("ab") as stream:
                stream.write(b"the end")
            process.terminate()
            assert process.wait(timeout=20) == 0
        finally:
            process.kill()
    assert is_up(session / "sockets" / "raylet")
    assert kept.read_bytes().endswith(b"the end")


@pytest.mark.process
def test_it_imports_nothing_large() -> None:
    """It runs on every node next to Ray; a container of Kubernetes has little memory for it."""
    code = "import sys, vse.cluster.node_logs; print(*sorted({'torch', 'ray', 'numpy'} & set(sys.modules)))"
    environment = os.environ | {"PYTHONPATH": str(Path(node_logs.__file__).parents[2])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "\n"
