"""Completion of the `vse` command."""

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vse.cli.completion import SHELLS, candidates, script
from vse.cli.main import listed_jobs, main

JOBS = listed_jobs()
ROOT = Path(__file__).resolve().parents[3]

CASES = [
    ("vse swe", ["sweep"]),
    ("vse sweep al", ["alpha"]),
    ("vse train --preset vsepp_ti", ["vsepp_tiny"]),
    ("vse train train.ep", ["train.epochs="]),
    ("vse train tra", ["train."]),
    ("vse train objective=ranki", ["objective=ranking"]),
    ("vse train seed=1 optim.cl", ["optim.clip="]),
    ("vse evaluate run=x tasks=retrieval,winog", ["tasks=retrieval,winoground"]),
    ("vse evaluate run=x measure.device=c", ["measure.device=cpu", "measure.device=cuda"]),
]


@pytest.mark.parametrize(("line", "expected"), CASES)
def test_a_word_is_completed(line: str, expected: list[str]) -> None:
    assert candidates(line.split(" ")[1:], JOBS) == expected


def test_commands_are_completed_word_by_word() -> None:
    assert {"train", "sweep", "evaluate", "--version"} <= set(candidates([""], JOBS))
    assert candidates(["sweep", ""], JOBS) == ["alpha", "eta", "lambda", "margin"]
    assert candidates(["unknown", ""], JOBS) == []
    assert "codes" in candidates(["compare", ""], JOBS)  # `compare` and `compare codes` are commands
    assert "codes." in candidates(["compare", "codes", ""], JOBS)


def test_options_are_those_of_the_job() -> None:
    assert "--preset" in candidates(["train", "--"], JOBS)
    assert "--preset" not in candidates(["evaluate", "--"], JOBS)
    assert candidates(["train", "--workspace", ""], JOBS) == []  # a folder, which the shell completes
    assert candidates(["evaluate", "train."], JOBS) == []  # it trains nothing


def test_keys_of_all_components_are_known() -> None:
    of_families = candidates(["train", "model."], JOBS)
    assert {"model.dim=", "model.text=", "model.start="} <= set(of_families)
    assert candidates(["train", "data.of.dra"], JOBS) == ["data.of.drawing="]  # of a source within another


def test_shells_are_bash_and_zsh(capsys: pytest.CaptureFixture[str]) -> None:
    for shell in SHELLS:
        assert main(["--print-completion", shell]) == 0
        assert capsys.readouterr().out == script(shell)
    assert main(["--print-completion", "fish"]) == 2
    assert capsys.readouterr().err == "vse: --print-completion: expected bash or zsh\n"


@pytest.mark.process
def test_the_answer_needs_no_heavy_import_and_half_a_second_of_computing() -> None:
    code = (
        "import sys, time; from vse.cli.main import main; main(['--complete', 'train', 'train.ep'])\n"
        "heavy = {'torch', 'ray', 'mlflow', 'numpy'} & set(sys.modules)\n"
        "print(sorted(heavy), time.process_time() < 0.5)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "train.epochs=\n[] True\n"


# Typed lines, with Tab, and the words with which the command is then started.
TYPED = [
    ("vse tra\t --preset vsepp_ti\t tra\tep\t3", "train --preset vsepp_tiny train.epochs=3"),
    ("vse sweep al\t seed=1", "sweep alpha seed=1"),
    ("vse train objective=ranki\t --work\t here/da\tx", "train objective=ranking --workspace here/data/x"),
    ("vse evaluate run=here/da\tx tasks=retrieval,winog\t", "evaluate run=here/data/x tasks=retrieval,winoground"),
]


@pytest.mark.process
@pytest.mark.parametrize("shell", SHELLS)
def test_a_shell_completes_what_is_typed(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    program = tmp_path / "vse"
    program.write_text(
        f"#!{sys.executable}\nimport sys\n\nfrom vse.cli.main import main\n\n"
        "if sys.argv[1].startswith('--'):\n    raise SystemExit(main())\nprint('started:', *sys.argv[1:])\n"
    )
    program.chmod(0o755)
    (tmp_path / "here" / "data").mkdir(parents=True)
    search = f"{tmp_path}:{os.environ['PATH']}"
    given = {"PATH": search, "PYTHONPATH": str(ROOT / "platform"), "HOME": str(tmp_path), "TERM": "dumb", "PS1": "> "}
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(tmp_path)
        os.execvpe(shell, [shell, *(["--norc", "-i"] if shell == "bash" else ["-f", "-i"])], given)
    try:
        seen = _until(terminal, "> ")
        for line, expected in [(f"source <(vse --print-completion {shell}); echo 're'ady", "ready"), *TYPED]:
            os.write(terminal, f"{line}\n".encode())
            seen = _until(terminal, f"{expected}\r\n" if expected == "ready" else f"started: {expected}\r\n")
        assert "not found" not in seen
    finally:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        os.close(terminal)


def _until(terminal: int, text: str) -> str:
    """What the terminal shows up to a text, within 20 seconds."""
    seen, end = "", time.monotonic() + 20
    while text not in seen:
        ready, _, _ = select.select([terminal], [], [], max(0, end - time.monotonic()))
        assert ready, f"{text!r} did not appear in {seen!r}"
        seen += os.read(terminal, 4096).decode(errors="replace")
    return seen
