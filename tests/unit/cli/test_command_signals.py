"""Signals end a job as such, whatever it was about."""

import os
import pty
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.levels import slow, slow_but
from tests.waiting import wait_for

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3] / "platform")}


def job(folder: Path, run: str) -> list[str]:
    """Arguments of a process that serves the job `wait`, whose `run` is given as source and knows `folder`."""
    script = folder / "wait.py"
    start = "import os, signal, sys, time\nfrom pathlib import Path\nfrom vse.cli import command\n"
    end = 'sys.exit(command.main("wait", run, description="", argv=[]))\n'
    script.write_text(f"{start}folder = Path(sys.argv.pop())\n{textwrap.dedent(run)}{end}")
    return [sys.executable, str(script), str(folder)]


@pytest.mark.process
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), *slow([(signal.SIGINT, 130), (signal.SIGHUP, 129)])]
)
def test_a_signal_ends_the_job_after_its_cleaning_up(number: int, status: int, tmp_path: Path) -> None:
    arguments = job(
        tmp_path,
        """
        def run(request):
            try:
                (folder / "started").touch()
                time.sleep(60)
            finally:
                (folder / "cleaned").touch()
        """,
    )
    process = subprocess.Popen(arguments, env=ENVIRONMENT, stderr=subprocess.PIPE)
    with process:
        try:
            wait_for(tmp_path / "started", process)
            process.send_signal(number)
            _, told = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == status
    assert b"wait: stopped" in told
    assert (tmp_path / "cleaned").exists()


@pytest.mark.process
@pytest.mark.parametrize(("number", "status"), [("SIGINT", 130), *slow([("SIGTERM", 143), ("SIGHUP", 129)])])
def test_a_signal_counts_whatever_a_library_makes_of_it(number: str, status: int, tmp_path: Path) -> None:
    """Ray makes SystemExit(1) of an exit that a handler asks for while a call of Ray waits."""
    arguments = job(
        tmp_path,
        f"""
        def run(request):
            try:
                os.kill(os.getpid(), signal.{number})
                time.sleep(60)
            except BaseException:
                sys.exit(1)
        """,
    )
    done = subprocess.run(arguments, env=ENVIRONMENT, capture_output=True, timeout=60, check=False)
    assert (done.returncode, b"wait: stopped" in done.stderr) == (status, True)


@pytest.mark.process
@pytest.mark.slow
def test_under_nohup_a_lost_connection_ends_nothing(tmp_path: Path) -> None:
    arguments = job(
        tmp_path,
        """
        def run(request):
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(0.1)
            return "summary.json"
        """,
    )
    done = subprocess.run(
        ["nohup", *arguments], env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"summary.json\n")


@pytest.mark.process
@pytest.mark.slow
def test_an_exit_without_a_signal_is_its_own(tmp_path: Path) -> None:
    arguments = job(tmp_path, "def run(request):\n    sys.exit(3)\n")
    done = subprocess.run(arguments, env=ENVIRONMENT, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (3, b"")


@pytest.mark.process
@pytest.mark.slow
def test_an_interrupt_is_one_though_nobody_reads_what_is_said(tmp_path: Path) -> None:
    """`job 2>&1 | tee log`: the terminal interrupts `tee` too, and it is gone first."""
    arguments = job(
        tmp_path,
        """
        def run(request):
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(60)
            except BaseException as error:
                (folder / "seen").write_text(type(error).__name__)
                raise
        """,
    )
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(arguments, env=ENVIRONMENT, stderr=writing, timeout=60, check=False)
    finally:
        os.close(writing)
    assert (tmp_path / "seen").read_text() == "KeyboardInterrupt"
    assert done.returncode == 130


@pytest.mark.process
@pytest.mark.parametrize("number", slow_but([signal.SIGHUP, signal.SIGINT], signal.SIGINT))
def test_progress_that_nobody_reads_takes_no_interrupt_s_place(number: int, tmp_path: Path) -> None:
    """A lost connection takes the terminal of a bar along, Ctrl-C the `tee` that lines are piped into."""
    arguments = job(
        tmp_path,
        """
        from vse.display.progress import Progress

        def run(request):
            try:
                with Progress("train", total=3) as bar:
                    bar.advance()
                    (folder / "started").touch()
                    time.sleep(60)
            except BaseException as error:
                (folder / "seen").write_text(type(error).__name__)
                raise
        """,
    )
    reading, writing = pty.openpty() if number == signal.SIGHUP else os.pipe()
    try:
        process = subprocess.Popen(arguments, env=ENVIRONMENT | {"TERM": "xterm"}, stdout=writing, stderr=writing)
    finally:
        os.close(writing)
    with process:
        try:
            wait_for(tmp_path / "started", process)
            os.close(reading)
            process.send_signal(number)
            process.wait(timeout=30)
        finally:
            process.kill()
    assert (tmp_path / "seen").read_text() == ("SystemExit" if number == signal.SIGHUP else "KeyboardInterrupt")
    assert process.returncode == 128 + number
