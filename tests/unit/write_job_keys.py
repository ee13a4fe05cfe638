"""Writes keys and descriptions of all jobs, and what shells complete.

Run `python -m tests.unit.write_job_keys` after an option, a preset or a component is added.
"""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from vse import registry
from vse.cli import command
from vse.cli import main as program
from vse.cli.completion import COMPLETION
from vse.cli.main import JOB_KEYS
from vse.config import groups, names_of, walk
from vse.evaluation import tasks
from vse.presets import names, preset

JOBS = Path(__file__).parents[2] / "jobs"
FILE = Path(program.__file__).with_name(JOB_KEYS)
COMPLETION_FILE = FILE.with_name(COMPLETION)


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


def values_of(config: Any, above: str = "", within: tuple[str, ...] = ()) -> dict[str, set[str]]:
    """The values that are known of each key of a configuration, with the keys of all components that it may have.

    Args:
        config: a configuration.
        above: the keys begin with it.
        within: kinds of components whose configuration this is a part of. Those that it has again are not expanded.
    """
    values = {f"{above}{key}": set(names_of(config, key.split("."))) for key in groups(config)}
    for key, spec, hint, _ in walk(config):
        kind: str = spec.metadata.get("kind", "")
        known = registry.names(kind) if kind else spec.metadata.get("choices") or ()
        known = known or (("false", "true") if hint is bool else tasks.names() if key == "tasks" else ())
        values.setdefault(f"{above}{key}", set()).update({*map(str, known)} - {""})
        for name in registry.names(kind) if kind and kind not in within else ():
            below = values_of(registry.component(kind, name).Config(), f"{above}{key}.", (*within, kind))
            for each, more in below.items():
                values.setdefault(each, set()).update(more)
    return values


def completion_as_json(jobs: dict[str, dict[str, Any]]) -> str:
    """Names of presets, and the known values of all keys: a line for each preset, key, and job."""
    of_jobs = {name: {k: v for k, v in values_of(given["options"]).items() if v} for name, given in jobs.items()}
    found = {"jobs": of_jobs, "presets": dict.fromkeys(names()), "run": values_of(preset("vsepp_tiny"))}
    parts = []
    for part, entries in found.items():
        lines = (
            f"{json.dumps(key)}: {json.dumps(entries[key], default=sorted, sort_keys=True)}" for key in sorted(entries)
        )
        parts.append(f"{json.dumps(part)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    found = declared()
    FILE.write_text(as_json(found), encoding="utf-8")
    COMPLETION_FILE.write_text(completion_as_json(found), encoding="utf-8")
