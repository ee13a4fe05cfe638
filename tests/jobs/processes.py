"""Jobs as processes of their own, and many command lines one after the other in one process."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

# Each command line through the job's own file, as `python jobs/x.py` runs it; imports are paid once.
_MANY = """
import contextlib, io, json, logging, runpy, sys
found = []
for job, *arguments in json.load(sys.stdin):
    sys.argv = [job, *arguments]
    logging.getLogger("vse").handlers.clear()  # they write to the error stream of the job before
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        try:
            runpy.run_path(job, run_name="__main__")
            status = None
        except SystemExit as exit:
            status = exit.code
    found.append([status, out.getvalue(), error.getvalue()])
json.dump(found, sys.stdout)
"""


def environment(*paths: Path) -> dict[str, str]:
    """The environment of a job: the package from this tree, `paths` before it, one thread, no tracking server."""
    where = os.pathsep.join(map(str, (*paths, ROOT / "platform", ROOT)))
    values = {**os.environ, "PYTHONPATH": where, "OMP_NUM_THREADS": "1"}
    for name in ("MLFLOW_TRACKING_URI", "VSE_WORKSPACE", "VSE_CACHE"):
        values.pop(name, None)
    return values


def command(job: str, workspace: Path | str, *more: str) -> list[str]:
    """The command line of a job."""
    return [sys.executable, str(ROOT / "jobs" / f"{job}.py"), "--workspace", str(workspace), *more]


def run(
    job: str, workspace: Path | str, *more: str, timeout: float = 250, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """A job to its end, started in `folder`: that of the workspace, where this is not on S3."""
    return subprocess.run(
        command(job, workspace, *more),
        cwd=folder or Path(workspace).parent,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def run_unread(job: str, workspace: Path, *more: str, timeout: float = 250) -> int:
    """The exit status of a job whose reader is gone before it prints, as that of `job | head` is after ten lines."""
    with subprocess.Popen(
        command(job, workspace, *more),
        cwd=workspace.parent,
        env=environment() | {"PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        return process.wait(timeout)


def summary_of(result: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The summary whose path is the last line a job printed."""
    assert result.returncode == 0, result.stderr
    path = Path(result.stdout.splitlines()[-1])
    assert re.fullmatch(r"summary(-[0-9a-f]{8})?\.json", path.name)
    return json.loads(path.read_text())


def run_many(
    lines: list[list[str]],
    folder: Path,
    *paths: Path,
    variables: dict[str, str] | None = None,
    timeout: float = 250,
) -> list[tuple[int | None, str, str]]:
    """(exit status, stdout, stderr) of job command lines `[job, argument, …]` in one process, imports paid once.

    paths: come first on its module path; variables: are added to its environment.
    """
    given = [[str(ROOT / "jobs" / f"{job}.py"), *more] for job, *more in lines]
    result = subprocess.run(
        [sys.executable, "-c", _MANY],
        cwd=folder,
        env=environment(*paths) | (variables or {}),
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return [(status, out, error) for status, out, error in json.loads(result.stdout)]


def run_without_ray(lines: list[list[str]], folder: Path) -> list[tuple[int | None, str, str]]:
    """As `run_many`, where importing Ray is an error: no case can have started it."""
    broken = folder / "broken" / "ray"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('Ray must not be started for this')\n")
    return run_many(lines, folder, broken.parent)
