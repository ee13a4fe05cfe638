"""The `vse` command: one command per job, with its options, its help and its exit status."""

import subprocess
import sys
import time

import pytest

from tests.unit.write_job_keys import JOBS
from vse.cli import main as program
from vse.cli.main import listed_jobs, main


def test_every_job_is_a_command_with_a_line_of_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert set(listed_jobs()) == {file.stem for file in JOBS.glob("[!_]*.py")}
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name in listed_jobs():
        (line,) = (line for line in lines if line.startswith(f"  {name.replace('_', ' ')}  "))
        assert 40 < len(line) <= 120


@pytest.mark.parametrize("typed", ["sweep alpha", "sweep_alpha", "sweep-alpha"])
def test_words_lead_to_a_job_with_the_arguments_behind_them(typed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    monkeypatch.setattr(program.runpy, "run_module", lambda name, **_: started.append((name, sys.argv)))
    monkeypatch.setattr(sys, "argv", ["vse"])
    assert main([*typed.split(), "--dry-run", "seed=1"]) == 0
    assert started == [("jobs.sweep_alpha", ["vse sweep alpha", "--dry-run", "seed=1"])]


def test_the_longer_command_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    monkeypatch.setattr(program.runpy, "run_module", lambda name, **_: started.append(name))
    monkeypatch.setattr(sys, "argv", ["vse"])
    main(["train", "parser"])
    main(["train", "seed=1"])
    assert started == ["jobs.train_parser", "jobs.train"]


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["trian"], "vse: trian: no such command; did you mean train?"),
        (["sweep", "seed=1"], "vse: sweep: no such command; expected one of sweep alpha, "),
        ([""], "vse: : no such command; "),
        (["sweep", ""], "vse: sweep: no such command; expected one of sweep alpha, "),
        (["--nothing"], "vse: --nothing: no such command; options follow the command, as in vse train "),
        (["--workspace", "ws", "status"], "vse: --workspace: no such command; options follow the command, as in "),
    ],
)
def test_an_unknown_command_is_one_line(typed: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(typed) == 2
    printed = capsys.readouterr().err
    assert printed.startswith(said)
    assert printed.count("\n") == 1


def test_an_interrupt_while_a_job_is_imported_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(program.runpy, "run_module", interrupted)
    monkeypatch.setattr(sys, "argv", ["vse"])
    assert main(["train", "seed=1"]) == 130
    assert capsys.readouterr().err == "train: stopped\n"


@pytest.mark.process
def test_help_starts_fast_and_imports_no_library() -> None:
    code = (
        "import sys; from vse.cli.main import main; main(['--help']); print({'torch', 'ray', 'numpy'} & {*sys.modules})"
    )
    start = time.monotonic()
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.endswith("set()\n")
    assert time.monotonic() - start < 5  # 0.1 s on an idle machine


@pytest.mark.process
@pytest.mark.slow
def test_a_command_ends_with_the_status_of_its_job(tmp_path: str) -> None:
    command = [sys.executable, "-c", "import sys; from vse.cli.main import main; sys.exit(main())"]
    done = subprocess.run([*command, "evaluate", "--workspace", str(tmp_path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "evaluate: run: there are no runs yet\n")
    done = subprocess.run([*command, "evaluate", "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout.startswith("usage: vse evaluate ")
