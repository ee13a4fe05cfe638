"""`summary.json`: the one file that says what a job did, with which settings, and what came out; one each,
`summary-<digits>.json`, where several jobs write to a folder."""

import datetime
import math
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from typing import Any

from vse.config import to_dict
from vse.storage.folder import Folder
from vse.workspace.provenance import command_line, environment
from vse.workspace.redaction import redact, redact_text

SCHEMA_VERSION = 1
FILE_NAME = "summary.json"
_IN_FOLDER = re.compile(r"(/evaluation)?/summary(-\w+)?\.json$")

_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_ALWAYS = ("schema", "job", "command", "started", "seconds", "configuration", "options", "fingerprints", "seeds")
_ALWAYS += ("versions", "git", "hardware", "headline", "outputs")
SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": [*_ALWAYS],
    "additionalProperties": False,
    "properties": {
        "schema": {"const": SCHEMA_VERSION},
        "job": {"type": "string", "minLength": 1},
        "command": {"type": "string"},
        "started": {"type": "string", "format": "date-time"},
        "seconds": {"type": "number", "minimum": 0},
        "configuration": {"type": ["object", "null"]},
        "options": {"type": ["object", "null"]},
        "fingerprints": _TEXTS,
        "seeds": {"type": "array", "items": {"type": "integer"}},
        "versions": {**_TEXTS, "required": ["python", "vse"]},
        "git": {"type": "object"},
        "hardware": {"type": "object", "required": ["cores", "gpus"]},
        "headline": {"type": "object", "additionalProperties": {"type": ["number", "string", "boolean", "null"]}},
        "outputs": _TEXTS,
        "details": {"type": "object"},
    },
}


def write_summary(
    folder: Folder,
    *,
    job: str,
    started: float,
    configuration: Any = None,
    options: Any = None,
    fingerprints: Mapping[str, str] | None = None,
    seeds: Iterable[int] = (),
    headline: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    details: Mapping[str, Any] | None = None,
    worked: float | None = None,
    digits: str = "",
) -> str:
    """Write `summary.json`, or with `digits` `summary-<digits>.json`, into `folder` and return its path or address.

    `started` is `time.time()` at the start; `configuration` and `options` are configuration dataclasses or plain data;
    `headline` holds the numbers a reader wants first (NaN becomes null); `outputs` name -> path of what was made;
    `details` whatever else the job wants to keep. Credentials are hidden. worked: seconds that the work took an earlier
    call, where this one found it done; they stand as `seconds`, and this call's own as `details.seconds_of_this_call`.
    """
    spent = round(max(0.0, time.time() - started), 3)
    if worked is not None:
        details = {**(details or {}), "seconds_of_this_call": spent}
    data: dict[str, Any] = {
        "schema": SCHEMA_VERSION,
        "job": job,
        "command": redact_text(command_line()),
        "started": datetime.datetime.fromtimestamp(started, datetime.UTC).isoformat(timespec="seconds"),
        "seconds": spent if worked is None else round(worked, 3),
        "configuration": redact(_data(configuration)),
        "options": redact(_data(options)),
        "fingerprints": dict(fingerprints or {}),
        "seeds": [int(seed) for seed in seeds],
        **environment(),
        "headline": {key: _finite(value) for key, value in (headline or {}).items()},
        "outputs": {key: redact_text(str(path)) for key, path in (outputs or {}).items()},
    }
    if details is not None:
        data["details"] = redact(dict(details))
    name = f"summary-{digits}.json" if digits else FILE_NAME
    folder.write_json(name, data)
    return folder.address(name)


def summarised(path: str) -> str:
    """The folder of the run, ensemble or sweep whose summary lies at a path that a job printed; others as they are."""
    return _IN_FOLDER.sub("", path.rstrip("/"))


def _data(value: Any) -> Any:
    return to_dict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _finite(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int):
        return value
    number = float(value)  # numpy and torch scalars too
    return number if math.isfinite(number) else None
