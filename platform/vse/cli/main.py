"""The `vse` command: `vse sweep alpha key=value` runs `jobs/sweep_alpha.py` with the same options and exit status."""

import json
import re
import runpy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

JOB_KEYS = "job_keys.json"  # keys and descriptions of all jobs; tests/unit/write_job_keys.py writes it
WRONG_INPUT, INTERRUPTED = 2, 130
_LONGEST = 3  # words of a command


def listed_jobs() -> dict[str, dict[str, Any]]:
    """By job, its `description`, its `keys` and its default `preset`, without importing any job."""
    return json.loads(Path(__file__).with_name(JOB_KEYS).read_text(encoding="utf-8"))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job that the first words name with the arguments behind them.

    Returns:
        0 after help or a successful job, 2 for an unknown command. Jobs exit with their own status.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    jobs = listed_jobs()
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_help(jobs))
        return 0
    if arguments[0] == "--version":
        from vse import __version__

        print(__version__)
        return 0
    if arguments[0] in ("--complete", "--print-completion"):
        return _complete(arguments, jobs)
    name, rest = job_of(arguments)
    if name:
        sys.argv = [f"vse {name.replace('_', ' ')}", *rest]
        try:
            runpy.run_module(f"jobs.{name}", run_name="__main__")
        except KeyboardInterrupt:  # while the job is imported, which takes seconds; it handles later ones itself
            print(f"{name}: stopped", file=sys.stderr)
            return INTERRUPTED
        return 0
    return _refuse(arguments, jobs)


def job_of(arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The job that the first words of a `vse` command name, empty if there is none, and the words behind them."""
    jobs = listed_jobs()
    for length in range(_LONGEST, 0, -1):
        name = "_".join(arguments[:length]).replace("-", "_")
        if name in jobs:
            return name, list(arguments[length:])
    return "", list(arguments)


def _complete(arguments: Sequence[str], jobs: Mapping[str, Mapping[str, Any]]) -> int:
    from vse.cli.completion import SHELLS, candidates, script

    if arguments[0] == "--complete":
        for word in candidates(arguments[1:], jobs):
            print(word)
        return 0
    if arguments[1:] not in [[shell] for shell in SHELLS]:
        print(f"vse: --print-completion: expected {' or '.join(SHELLS)}", file=sys.stderr)
        return WRONG_INPUT
    print(script(arguments[1]), end="")
    return 0


def _help(jobs: Mapping[str, Mapping[str, Any]]) -> str:
    width = max(map(len, jobs)) + 2
    lines = ["usage: vse COMMAND [--workspace URI] [--preset NAME] [--dry-run] [key=value ...]", ""]
    lines += ["Distributed experiments with visual-semantic embeddings; `vse COMMAND --help` lists its keys.", ""]
    lines += ["Completion: source <(vse --print-completion bash), or zsh.", ""]
    for name, job in jobs.items():
        lines.append(f"  {name.replace('_', ' '):{width}}{re.split('[.:;] ', job['description'])[0].rstrip('.')}")
    return "\n".join(lines)


def _refuse(arguments: Sequence[str], jobs: Mapping[str, Any]) -> int:
    from vse.errors import did_you_mean

    commands = [name.replace("_", " ") for name in jobs]
    typed = " ".join(word for word in arguments[:_LONGEST] if word[:1].isalpha() and "=" not in word) or arguments[0]
    below = [command for command in commands if command.startswith(f"{typed} ")]
    meant = f"expected one of {', '.join(below)}" if below else did_you_mean(typed, commands)
    if arguments[0].startswith("-"):
        typed, meant = arguments[0], "options follow the command, as in vse train --workspace URI"
    print(f"vse: {typed}: no such command; {meant or 'see vse --help'}", file=sys.stderr)
    return WRONG_INPUT
