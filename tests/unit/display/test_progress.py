"""Progress: plain lines elsewhere, a bar on a terminal, nothing on stdout."""

import io
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from vse.display.progress import Parts, Progress

ROOT = Path(__file__).resolve().parents[3]


def test_plain_lines_say_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    out = io.StringIO()
    with Progress("extract", total=100, unit="images", every=10, out=out) as bar:
        for _ in range(4):
            clock[0] += 6
            bar.advance(10, text="loss 3.2")
    lines = out.getvalue().splitlines()
    assert lines == [
        "extract: 20/100 (20 %) images, 1.67 images/s, 0:12 spent, 0:48 left, loss 3.2",
        "extract: 40/100 (40 %) images, 1.67 images/s, 0:24 spent, 0:36 left, loss 3.2",
        "extract: 40/100 (40 %) images, 1.67 images/s, 0:24 spent, 0:36 left, loss 3.2",
    ]


def test_the_rate_may_begin_later_than_the_time_that_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep starts processes first."""
    clock = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    out = io.StringIO()
    with Progress("trials", total=4, unit="trials", every=1, out=out) as bar:
        clock[0] += 20
        bar.restart_clock()
        clock[0] += 10
        bar.advance(2)
    assert out.getvalue().splitlines()[0] == "trials: 2/4 (50 %) trials, 0.2 trials/s, 0:30 spent, 0:10 left"


def test_an_unknown_total_has_no_share(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    out = io.StringIO()
    with Progress("parse", unit="captions", out=out) as bar:
        bar.advance(3)
        clock[0] = 3700
    assert out.getvalue() == "parse: 3 captions, 0.000811 captions/s, 1:01:40 spent\n"


def test_parts_of_unfinished_items_count(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    out = io.StringIO()
    with Progress("train", total=4, unit="trials", every=20, out=out) as bar:
        clock[0] = 20
        bar.advance(0)
        clock[0] = 40
        bar.parts = Parts(share=1.2, earlier=0.4, count=12, unit="epochs")
        bar.advance(0, text="seed 0: epoch 6/10")
        clock[0] = 60
        bar.parts = Parts(share=0.9, earlier=0.4, count=16, unit="epochs")  # one trial began again
        bar.advance(0)
        clock[0] = 80
        bar.parts = Parts(earlier=0.4, count=40, unit="epochs")
        bar.advance(4)
    assert out.getvalue().splitlines() == [
        "train: 0/4 (0 %) trials, 0:20 spent, no estimate yet",
        "train: 0/4 (30 %) trials, 12 epochs, 0.3 epochs/s, 0:40 spent, 2:20 left, seed 0: epoch 6/10",
        "train: 0/4 (30 %) trials, 16 epochs, 0.267 epochs/s, 1:00 spent, 5:36 left, seed 0: epoch 6/10",
        "train: 4/4 (100 %) trials, 40 epochs, 0.5 epochs/s, 1:20 spent, seed 0: epoch 6/10",
    ]


def test_time_left_is_never_negative_and_counts_never_fall() -> None:
    bar = Progress("train", total=2, unit="trials", out=io.StringIO())
    seen = []
    for done, share in ((0, 0.0), (0, 1.9), (0, 2.0), (1, 0.3), (1, 1.0), (2, 0.7)):
        bar.done, bar.parts = done, Parts(share=share, count=1)
        seen.append(bar.completed)
        assert (bar.left() or 0.0) >= 0
    assert seen == sorted(seen)
    assert seen[-1] == 2


def test_items_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    for label, total, count in (("work", 3, 3), ("stream", None, 2)):
        with Progress(label, total) as bar:
            for _ in range(count):
                bar.advance()
    told = capsys.readouterr()
    assert told.out == ""
    assert "work: 3/3 (100 %) items" in told.err
    assert "stream: 2 items" in told.err


def test_nothing_of_an_unknown_total_is_no_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Tasks that score no pairs."""
    for total in (None, 2):
        with Progress(f"of {total}", total, "pairs"):
            pass
    assert capsys.readouterr().err == "of 2: 0/2 (0 %) pairs, 0:00 spent, no estimate yet\n"


def test_an_error_passes_and_the_last_line_says_how_far(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        with Progress("work", 5) as bar:
            bar.advance(2)
            raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        fail()
    assert "work: 2/5" in capsys.readouterr().err


@pytest.mark.process
def test_a_terminal_gets_a_bar() -> None:
    code = "import time\nfrom vse.display.progress import Progress\n"
    code += "with Progress('train', 30, 'epochs') as bar:\n    for _ in range(30): time.sleep(0.01), bar.advance()"
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "platform"), "TERM": "xterm", "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-c", code], stderr=theirs, stdout=subprocess.PIPE, env=environment, check=True, timeout=60
    )
    os.close(theirs)
    told = os.read(ours, 100_000).decode()
    os.close(ours)
    assert done.stdout == b""
    assert "train" in told
    assert "30/30" in told
    assert "epochs/s" in told


@pytest.mark.process
def test_the_bar_of_a_terminal_counts_parts_and_says_what_is_done() -> None:
    code = "import time\nfrom vse.display.progress import Parts, Progress\n"
    code += "with Progress('train', total=6, unit='trials') as bar:\n"
    code += "    time.sleep(0.2)\n    bar.parts = Parts(share=1.5, count=15, unit='epochs')\n"
    code += "    bar.advance(0, 'seed 0: epoch 8/10 [x]')\n    time.sleep(0.3)"
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "platform"), "TERM": "xterm", "COLUMNS": "140"}
    subprocess.run([sys.executable, "-c", code], stderr=theirs, env=environment, check=True, timeout=60)
    os.close(theirs)
    told = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "no estimate yet" in told
    assert "0/6" in told
    assert "15 epochs" in told
    assert "left" in told
    assert "seed 0: epoch 8/10 [x]" in told


@pytest.mark.process
def test_work_goes_on_where_the_terminal_is_gone() -> None:
    code = "import time\nfrom vse.display.progress import Progress\nfor label in ('train', 'test'):\n"
    code += "    with Progress(label, 30) as bar:\n        for _ in range(30): time.sleep(0.01), bar.advance()\n"
    code += "print('done')"
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "platform"), "TERM": "xterm"}
    process = subprocess.Popen([sys.executable, "-c", code], stderr=theirs, stdout=subprocess.PIPE, env=environment)
    os.close(theirs)
    os.close(ours)
    told, _ = process.communicate(timeout=60)
    assert (process.returncode, told) == (0, b"done\n")
