"""Writes keys and descriptions of all jobs: `python -m tests.unit.write_job_keys`, after an option is added."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from vse.cli import command
from vse.cli import main as program
from vse.cli.main import JOB_KEYS
from vse.config import walk

JOBS = Path(__file__).parents[2] / "jobs"
FILE = Path(program.__file__).with_name(JOB_KEYS)


def declared() -> dict[str, dict[str, Any]]:
    """By name, what each job gives to `command.main`, less the work."""
    found = dict[str, dict[str, Any]]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command, "main", lambda job, run, **given: found.update({job: given}))
        for file in sorted(JOBS.glob("[!_]*.py")):
            with pytest.raises(SystemExit):
                runpy.run_path(str(file), run_name="__main__")
    return found


def as_json(jobs: dict[str, dict[str, Any]]) -> str:
    """A line for each job: description, default preset, own keys, with a dot behind those that have keys below."""
    lines = []
    for name, given in sorted(jobs.items()):
        keys = [f"{key}." if spec.metadata.get("below") else key for key, spec, *_ in walk(given["options"])]
        job = {"description": given["description"], "preset": given.get("default_preset", ""), "keys": sorted(keys)}
        lines.append(f"{json.dumps(name)}: {json.dumps(job, ensure_ascii=False)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    FILE.write_text(as_json(declared()), encoding="utf-8")
