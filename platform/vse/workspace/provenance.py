"""The provenance of results (versions, source state, machine), and `summary.json` of a job.

Jobs that share a folder write one file each, `summary-<digits>.json`.
"""

import datetime
import functools
import hashlib
import math
import os
import platform
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import is_dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import vse
from vse.config import to_dict
from vse.storage.folder import Folder
from vse.workspace.redaction import redact, redact_text

_PACKAGES = ("torch", "torchvision", "ray", "mlflow", "spacy", "hyperopt", "pyarrow", "numpy", "pillow")


def versions() -> dict[str, str]:
    """Name -> version of Python, this package and the libraries that numbers depend on; absent ones are left out.

    `code` is a digest of this package's sources, since the version does not change with every edit and nodes of a
    cluster have no repository.
    """
    versions = {"python": platform.python_version(), "vse": vse.__version__, "code": code_digits()}
    for package in _PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


@functools.cache
def code_digits() -> str:
    """Eight digits over the sources, the same for a checkout and an installation. Read once, as the code runs."""
    digest, package = hashlib.sha256(), Path(__file__).parents[1]
    for file in sorted([*package.rglob("*.py"), *package.rglob("*.toml")]):
        digest.update(f"{file.relative_to(package).as_posix()}\n".encode() + hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:8]


@functools.cache
def git_state() -> dict[str, Any]:
    """Commit of the package's source tree and whether files differ from it; nothing if there is no repository."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return {}
    try:
        commit = _git(root, "rev-parse", "HEAD")
        changed = [line for line in _git(root, "status", "--porcelain", "--untracked-files=no").splitlines() if line]
    except (OSError, subprocess.SubprocessError):
        return {}
    return {"commit": commit.strip(), "changed_files": len(changed)}


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=10, check=True
    ).stdout


@functools.cache
def hardware() -> dict[str, Any]:
    """Processor, usable cores, memory in GiB, and names of the visible GPUs, without importing torch."""
    return {
        "machine": platform.machine(),
        "processor": _first_after("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": usable_cores(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "gpus": gpus(),
    }


def usable_cores() -> int:
    """Cores this process may run on (an affinity mask or container limit counts), at least one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        if quota != "max":
            cores = min(cores, max(1, int(quota) // int(period)))
    except (OSError, ValueError):
        pass  # no version 2 control group, so no quota to respect
    return max(1, cores)


def gpus() -> list[str]:
    """Names of the NVIDIA GPUs on this machine that CUDA_VISIBLE_DEVICES leaves visible."""
    cards = sorted(Path("/proc/driver/nvidia/gpus").glob("*/information"))
    names = [_first_after(str(card), "Model") or "GPU" for card in cards]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return names
    chosen = [entry for entry in visible.split(",") if entry.strip() not in ("", "-1")]
    return names[: len(chosen)]


def _first_after(path: str, label: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # names of hardware, for people only
            return next((line.partition(":")[2].strip() for line in file if line.startswith(label)), "")
    except OSError:
        return ""


def environment() -> dict[str, Any]:
    """Everything above as plain data: {"versions": ..., "git": ..., "hardware": ...}."""
    return {"versions": versions(), "git": git_state(), "hardware": hardware()}


def run_tags() -> dict[str, str]:
    """The same as flat text for a tracked run: version.*, hardware.*, host; git.* only if there is a repository."""
    around: dict[str, Any] = environment()
    git, machine = around["git"], around["hardware"]
    counts = Counter(machine["gpus"])
    tags = {f"version.{package}": version for package, version in around["versions"].items()}
    tags |= {
        "host": platform.node(),
        "hardware.processor": machine["processor"],
        "hardware.cores": str(machine["cores"]),
        "hardware.memory_gib": str(machine["memory_gib"]),
        "hardware.gpus": ", ".join(f"{count} x {name}" for name, count in counts.items()) or "none",
    }
    if git:
        tags |= {"git.commit": git["commit"], "git.dirty": "true" if git["changed_files"] else "false"}
    return tags


def command_line() -> str:
    """The command that started this process, as it could be typed again."""
    import shlex

    program, *arguments = sys.argv
    return shlex.join([*(["python", program] if program.endswith(".py") else program.split()), *arguments])


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
    """Write `summary.json` into a folder, with credentials hidden.

    Args:
        folder: where to write.
        job: name of the job.
        started: `time.time()` at its start.
        configuration: a configuration dataclass or plain data.
        options: likewise.
        fingerprints: of what was read and made, by name.
        seeds: that were used.
        headline: the most important numbers; NaN becomes null.
        outputs: paths by name.
        details: further plain data.
        worked: seconds that the work took an earlier call, if this call did none. They become `seconds`, and those of
            this call `details.seconds_of_this_call`.
        digits: the file is `summary-<digits>.json`, for jobs that share a folder.

    Returns:
        The path or address of the file.
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
    """The folder of the run, ensemble or sweep of a `summary.json`, by its path; other paths unchanged."""
    return _IN_FOLDER.sub("", path.rstrip("/"))


def _data(value: Any) -> Any:
    return to_dict(value) if is_dataclass(value) and not isinstance(value, type) else value


def _finite(value: Any) -> Any:
    if value is None or isinstance(value, str | bool | int):
        return value
    number = float(value)  # numpy and torch scalars too
    return number if math.isfinite(number) else None
