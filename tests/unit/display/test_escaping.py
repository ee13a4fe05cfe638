"""Control characters of data are shown wherever a job prints or logs, and no encoding of a terminal ends a job."""

import io
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.levels import slow, slow_but
from tests.unit.cli.test_command import call
from vse.cluster.runtime import set_up_logging
from vse.display.escaping import escaped_output, one_line, raw, visible
from vse.display.progress import Progress
from vse.errors import InputError
from vse.status.overview import Status, StatusRow
from vse.status.screen import render

TITLE, CLEAR, LINK = "\x1b]0;owned\x07", "\x1b[2J\x1b[H", "\x1b]8;;http://evil\x07here"
HOSTILE = [TITLE, CLEAR, LINK, "\x9b2J", "over\rwritten", "\x08\x08gone", "txt.\u202eexe", "a\u2028b", "caf\udce9.jpg"]


def shows_controls(text: str) -> bool:
    """Whether anything but line ends would be obeyed by a terminal."""
    return any(not char.isprintable() for char in text.replace("\n", ""))


@pytest.mark.parametrize("text", HOSTILE)
def test_controls_are_shown_and_nothing_is_lost(text: str) -> None:
    assert not shows_controls(visible(text))
    assert visible(text).encode("ascii").decode("unicode_escape") == text
    assert one_line(one_line(text)) == one_line(text)


@pytest.mark.parametrize("text", ["Ein Café, 犬 и собака", "می‌خواهم", "👩‍👩‍👧 flag 🏴󠁧󠁢󠁥󠁮󠁧󠁿", "a\u3000b", "C:\\x1b"])
def test_text_of_any_script_stays(text: str) -> None:
    assert one_line(text) == text


def test_a_cell_is_one_line() -> None:
    assert one_line("a dog\nerror: fake\tx") == r"a dog\nerror: fake\tx"
    assert visible("a\tb\n") == "a\tb\n"


@pytest.mark.parametrize("text", HOSTILE)
def test_an_error_shows_them(text: str, capfd: pytest.CaptureFixture[str]) -> None:
    def refuse(request: object) -> str:
        raise InputError(f"data.root={text}: no such folder")

    assert call(run=refuse)[0] == 2
    told = capfd.readouterr().err
    assert told.startswith("demo: data.root=")
    assert told.count("\n") == 1
    assert not shows_controls(told)


def test_whatever_prints_during_a_job_is_shown_escaped(capfd: pytest.CaptureFixture[str]) -> None:
    """Tracebacks, warnings of libraries and plain prints pass through the same streams."""

    def fail(request: object) -> str:
        print(TITLE)
        sys.stderr.writelines([CLEAR, "\n"])
        logging.getLogger("some.library").warning("reads %s", LINK)
        raise KeyError(TITLE)

    before = sys.stdout, sys.stderr
    assert call(run=fail)[0] == 1
    assert (sys.stdout, sys.stderr) == before
    told = capfd.readouterr()
    assert told.out == "\\x1b]0;owned\\x07\n"
    assert r"\x1b[2J" in told.err
    assert not shows_controls(told.err)


def test_a_log_line_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    log = logging.getLogger("vse")
    for name, value in {"handlers": [], "propagate": log.propagate, "level": log.level}.items():
        monkeypatch.setattr(log, name, value)  # as they were, afterwards
    set_up_logging()
    log.getChild("data").warning("%s: unreadable", "a\nvse: fake\x1b[2J.jpg")
    assert out.getvalue() == "a\\nvse: fake\\x1b[2J.jpg: unreadable\n"


def test_progress_shows_them_and_draws_its_bar() -> None:
    plain = io.StringIO()
    with Progress("rea\x1bd", total=2, out=plain) as bar:
        bar.advance(2, text="last \x1b[2J\n")
    assert plain.getvalue().startswith("rea\\x1bd: 2/2")
    assert plain.getvalue().endswith("last \\x1b[2J\\n\n")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    sys_stderr, sys.stderr = sys.stderr, terminal
    try:
        with escaped_output():
            assert raw(sys.stderr) is terminal
            with Progress("[bold]read", total=2) as bar:
                bar.advance(2, text=TITLE)
    finally:
        sys.stderr = sys_stderr
    drawn = terminal.getvalue()
    assert TITLE not in drawn
    assert "[bold]read" in drawn
    assert "\x1b[" in drawn  # its own colours


@pytest.mark.parametrize("terminal", [True, False])
def test_the_status_screen_shows_them(terminal: bool) -> None:
    line = StatusRow(kind="run", name=f"a{CLEAR}", state="failed", note=TITLE, done=1, unit="epochs", age=1.0)
    screen = render(Status("/w", [line], failures=[("a", LINK)]), terminal=terminal, size=(200, 20))
    assert not any(text in screen for text in (CLEAR, TITLE, LINK))
    assert r"\x1b[2J\x1b[H" in screen


ASCII = {
    "an encoding of the streams": {"PYTHONIOENCODING": "ascii"},
    "a locale": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}


JOB = """
import sys
from vse.cli.command import main
plan = lambda request: ["Straße \\udce9"]
sys.exit(main("train", print, description="α ± 0.1", default_preset="univse_tiny", plan=plan))
"""


@pytest.mark.process
@pytest.mark.parametrize("variables", slow_but(ASCII.values(), ASCII["a locale"]), ids=list(ASCII))
@pytest.mark.parametrize(
    "arguments", [["--preset", "univse_tiny", "--dry-run"], *slow([["--help"]])], ids=["dry run", "help"]
)
def test_output_in_ascii_is_escaped(tmp_path: Path, variables: dict[str, str], arguments: list[str]) -> None:
    job = tmp_path / "job.py"
    job.write_text(JOB, encoding="utf-8")
    names = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG", "PYTHONUTF8"))}
    places = {"PYTHONPATH": str(Path(__file__).parents[3] / "platform"), "VSE_WORKSPACE": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, str(job), *arguments], env=names | places | variables, capture_output=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
    assert (rb"\u03b1 \xb1 0.1" if "--help" in arguments else rb"Stra\xdfe \udce9") in result.stdout


def test_an_argument_that_the_locale_cannot_read_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert call("epochs=caf\udce9")[0] == 2
    assert capfd.readouterr().err.startswith(r"demo: epochs=caf\udce9: is not text in this locale's encoding")
