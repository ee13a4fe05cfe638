"""What a result was made with: versions, source state, machine. Written into summaries and tracked runs."""

import functools
import hashlib
import os
import platform
import subprocess
import sys
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import Any

import vse

_PACKAGES = ("torch", "torchvision", "ray", "mlflow", "spacy", "hyperopt", "pyarrow", "numpy", "pillow")


def versions() -> dict[str, str]:
    """Name -> version of Python, this package and the libraries that numbers depend on; absent ones are left out.

    `code` are eight digits over this package's sources: its version does not change with every edit, and on the nodes
    of a cluster there is no repository to ask.
    """
    found = {"python": platform.python_version(), "vse": vse.__version__, "code": code_digits()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


@functools.cache
def code_digits() -> str:
    """The same of a checkout and of what was installed from it. Read once: what is edited later is not what runs."""
    found, package = hashlib.sha256(), Path(__file__).parents[1]
    for file in sorted([*package.rglob("*.py"), *package.rglob("*.toml")]):
        found.update(f"{file.relative_to(package).as_posix()}\n".encode() + hashlib.sha256(file.read_bytes()).digest())
    return found.hexdigest()[:8]


@functools.cache
def git_state() -> dict[str, Any]:
    """Commit of the package's source tree and whether files differ from it; nothing where there is no repository."""
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
    """Processor, usable cores, memory in GiB, names of GPUs the driver knows; costs no library import."""
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
    """The same as flat text for a tracked run: version.*, hardware.*, host; git.* only where there is a repository."""
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
