"""jobs/compare_codes.py: how Gaussian codes are before and after training, one row per system in a growing table."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vse import registry
from vse.config import flatten, knob
from vse.errors import InputError
from vse.evaluation.gaussianity import KeepsCodes
from vse.evaluation.intervals import interval
from vse.evaluation.tasks.gaussian_codes import BEFORE, NUMBERS, SIDES
from vse.report.files import RESULTS, json_text
from vse.storage.folder import Folder
from vse.training.config import RunConfig, check_objective

SPLIT = "test"
SCHEMA_VERSION = 1
LEFT_OUT = ("std_spread", "norm", "correlation")  # of the table
COLUMNS = {name: number for name, number in NUMBERS.items() if name not in LEFT_OUT}


@dataclass(frozen=True, kw_only=True, slots=True)
class CodesOptions:
    """Keys of the job, next to the run configuration."""

    name: str = knob("", "name of the system in the table")
    seeds: int = knob(5, "number of runs, with seeds 0, 1, ...", low=1)
    out: str = knob("", "folder of the table; empty: `reports/gaussian` in the workspace", writes="folder")


def check(config: RunConfig, options: CodesOptions) -> None:
    """Raises InputError, before any training, for a system without a name or without codes."""
    if not options.name:
        raise InputError("codes.name: give the name of the system in the table")
    family = registry.name_of("family", config.model)
    if not issubclass(registry.component("family", family), KeepsCodes):
        raise InputError(f"model={family}: this family has only unit vectors; jWAE has other codes")
    check_objective(config)


def add_system(
    out: Folder, name: str, command: str, config: RunConfig, measured: Mapping[int, Mapping[str, float]]
) -> list[str]:
    """Add a system to the file, or replace the system of the same name.

    Args:
        out: Folder of the file.
        name: The system in the table.
        command: What reproduces its numbers.
        config: Its configuration, of any seed.
        measured: Seed -> values of the task gaussian_codes.

    Returns:
        The lines of the table of all systems.

    Raises:
        InputError: The file is of another kind, or its systems were measured on other data.
    """
    content = out.read_json(RESULTS) if out.exists(RESULTS) else {"schema": SCHEMA_VERSION, "systems": {}}
    if not isinstance(content, dict) or content.get("schema") != SCHEMA_VERSION:
        raise InputError(f"{out.address(RESULTS)}: written by another job or version; name another folder in codes.out")
    systems, configuration = content["systems"], {k: v for k, v in flatten(config).items() if k != "seed"}
    for other in systems:
        if other != name and (key := _other_data(systems[other]["configuration"], configuration)):
            raise InputError(
                f"{out.address(RESULTS)}: {other} was measured on other data ({key}), which one table cannot compare; "
                "name another folder in codes.out"
            )
    first = next(iter(measured.values()))
    keys = [f"{side}/{when}{name}" for side in SIDES for when in ("", BEFORE) for name in NUMBERS]
    systems[name] = {
        "command": command,
        "seeds": sorted(measured),
        "configuration": configuration,
        "numbers": {
            key: _interval([values[f"gaussian_{key}"] for values in measured.values()])
            for key in keys
            if f"gaussian_{key}" in first
        },
    }
    out.write_text(RESULTS, json_text(content))
    return table(systems)


def _other_data(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The first key of the data set in which two configurations differ; empty if they do not."""
    keys = [key for key in {**one, **other} if key.partition(".")[0] == "data"]
    return next((key for key in keys if json.dumps(one.get(key)) != json.dumps(other.get(key))), "")


def table(systems: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Markdown: a row for each system and side. A cell has the mean before training, if it was measured, and the mean
    after it with interval."""
    heads = [f"{heading}, %" if unit == "share" else heading for heading, unit, _ in COLUMNS.values()]
    lines = [f"| system | codes of | {' | '.join(heads)} |", f"|{'---|' * (len(heads) + 2)}"]
    for name, system in systems.items():
        for side in SIDES:
            cells = [_cell(system["numbers"], side, metric) for metric in COLUMNS]
            lines.append(f"| {name} | {side} | {' | '.join(cells)} |")
    return lines


def _cell(numbers: Mapping[str, Sequence[float | None]], side: str, metric: str) -> str:
    if f"{side}/{metric}" not in numbers:
        return "none"
    _, unit, digits = COLUMNS[metric]
    factor, digits = (100, digits - 2) if unit == "share" else (1, digits)
    (mean, half), (before, _) = numbers[f"{side}/{metric}"], numbers.get(f"{side}/{BEFORE}{metric}", (None, None))
    assert mean is not None
    start = "" if before is None else f"{factor * before:.{digits}f} → "
    spread = "" if half is None else f" ± {factor * half:.{digits}f}"
    return f"{start}{factor * mean:.{digits}f}{spread}"


def _interval(values: Sequence[float]) -> list[float | None]:
    """[mean, half of the 95 % interval over seeds; None of a single one]."""
    over_seeds = interval(values)
    return [round(over_seeds.mean, 5), None if math.isnan(over_seeds.half) else round(over_seeds.half, 5)]
