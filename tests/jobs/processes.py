"""Jobs as processes of their own, and many wrong command lines in one process that cannot start Ray."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

# Each command line through the job's own file, as `python jobs/x.py` runs it; imports are paid once.
_MANY = """
import contextlib, io, json, runpy, sys
found = []
for job, *arguments in json.load(sys.stdin):
    sys.argv = [job, *arguments]
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


def run(job: str, workspace: Path, *more: str, timeout: float = 250) -> subprocess.CompletedProcess[str]:
    """A job to its end, started in the folder of the workspace."""
    return subprocess.run(
        command(job, workspace, *more),
        cwd=workspace.parent,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def summary_of(result: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The summary whose path is the last line a job printed."""
    assert result.returncode == 0, result.stderr
    path = Path(result.stdout.splitlines()[-1])
    assert path.name == "summary.json"
    return json.loads(path.read_text())


def run_without_ray(lines: list[list[str]], folder: Path) -> list[tuple[int | None, str, str]]:
    """(exit status, stdout, stderr) of job command lines `[job, argument, …]` where importing Ray is an error."""
    broken = folder / "broken" / "ray"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError('Ray must not be started for this')\n")
    given = [[str(ROOT / "jobs" / f"{job}.py"), *more] for job, *more in lines]
    result = subprocess.run(
        [sys.executable, "-c", _MANY],
        cwd=folder,
        env=environment(broken.parent),
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=250,
        check=True,
    )
    return [(status, out, error) for status, out, error in json.loads(result.stdout)]
