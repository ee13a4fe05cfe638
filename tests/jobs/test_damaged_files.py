"""Every kind of file that a workspace holds, damaged in every way, under the jobs that read it.

What can be made again is, with the numbers that it had; what cannot is one line that names the file. Never a traceback,
never another number. `test_power_loss` has files of which the last write is missing.
"""

import contextlib
import io
import json
import logging
import runpy
import shutil
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.processes import ROOT

SIZE = ["data.num_train=16", "data.num_val=6", "data.num_test=6", "data.num_shifted=0", "train.batch_size=32"]
SIZE += ["train.epochs=2", "model.dim=16"]
HTML = b"<!DOCTYPE html>\n<html><body><h1>502 Bad Gateway</h1></body></html>\n"


def _flipped(data: bytes) -> bytes:
    """One bit of a byte in the middle."""
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "flipped": _flipped,
    "html": lambda data: HTML,
}

UNIVSE, JWAE, VSEC = "univse-scenes-*", "jwae-scenes-*", "vsec-scenes-*"
JOBS: dict[str, list[str]] = {
    "train univse": ["train", "--preset", "univse_tiny", *SIZE],
    "train jwae": ["train", "--preset", "jwae_mse_small", *SIZE, "text.sentence=mean", "text.word_vectors=captions"],
    "train vsec": ["train", "--preset", "vsec_small", *SIZE],
    "evaluate univse": ["evaluate", f"run={UNIVSE}"],
    "evaluate jwae": ["evaluate", f"run={JWAE}"],
    "evaluate vsec": ["evaluate", f"run={VSEC}", "tasks=retrieval,attacks,contrast,own_pools,plural_split"],
    "evaluate both": ["evaluate", f"run={UNIVSE},{VSEC}"],
    "compare": ["compare", f"runs={UNIVSE},{VSEC}"],
    "search": ["search", f"run={UNIVSE}", "text=a red ball"],
    "report": ["report", f"runs={UNIVSE},{VSEC}"],
    "register": ["register_model", f"run={UNIVSE}"],
    "status": ["status"],
}
MAKERS = ("train", "evaluate", "compare", "register")  # make all that they read, but for trained models


@dataclass(frozen=True)
class Kind:
    """A kind of file. `anew`: what is removed before, so that somebody looks; `flips`: whether a flipped bit must leave
    all numbers as they were, of files that nothing but people reads it need not."""

    pattern: str
    jobs: tuple[str, ...]
    anew: tuple[str, ...] = ()
    flips: bool = True


ARRAYS, MEASURED = "cache/arrays", "runs/*/evaluation/measures-*.json"
KINDS = [
    *(
        Kind(f"datasets/*/{file}", ("train univse",))
        for file in ("images.parquet", "captions.parquet", "manifest.json")
    ),
    *(
        Kind(f"features/*/*/{file}", ("evaluate univse", "evaluate vsec", "search"), (ARRAYS, MEASURED))
        for file in ("shard-*.parquet", "index.parquet", "rejects.parquet", "manifest.json")
    ),
    *(
        Kind(f"features/*/*/{file}", ("evaluate univse", "status"), (ARRAYS, MEASURED, "features/*/*/manifest.json"))
        for file in ("shard-*.json", "begun_by.json")
    ),
    Kind("cache/arrays/*/map-*.npy", ("evaluate univse",), (MEASURED,), flips=False),
    Kind("language/*/*/parses-*.parquet", ("train univse", "evaluate univse"), (MEASURED,)),
    *(
        Kind(f"language/*/*/{file}", ("evaluate univse", "evaluate vsec"), (MEASURED,))
        for file in ("adversaries.jsonl", "parses/parses-*.parquet", "parses/manifest.json", "manifest.json")
    ),
    *(
        Kind(f"language/*/*/{file}", ("train vsec",), ("runs/vsec*/result.json", "runs/vsec*/checkpoints"))
        for file in ("candidates-*.parquet", "words.json")
    ),
    *(
        Kind(f"language/*/*/{file}", ("evaluate jwae",), (ARRAYS, MEASURED))
        for file in (
            "captions-*/manifest.json",
            "captions-*/texts.parquet",
            "captions-*/vectors-*.npy",
            "fit/manifest.json",
            "fit/vectors.npy",
            "fit/words.json",
        )
    ),
    *(
        Kind(f"runs/univse*/checkpoints/epoch-*/{file}", ("train univse", "evaluate univse", "search"))
        for file in (
            "model.safetensors",
            "optimizer.safetensors",
            "progress.json",
            "vocabulary.json",
            "context.json",
            "config.json",
            "manifest.json",
        )
    ),
    *(
        Kind(f"runs/univse*/{file}", ("status", "report", "evaluate univse", "train univse", "report"))
        for file in ("result.json", "journal.jsonl")
    ),
    *(
        Kind(f"runs/univse*/{file}", ("status", "report", "train univse", "evaluate univse"), flips=False)
        for file in ("config.json", "preset.json", "summary.json")
    ),
    Kind("runs/univse*/evaluation/measures-*.json", ("report", "evaluate univse", "compare", "report")),
    Kind("runs/univse*/evaluation/outcomes-*.parquet", ("compare", "evaluate univse")),
    Kind("runs/univse*/served/*/*.safetensors", ("register",)),
    Kind("runs/univse*/served/*/manifest.json", ("register",)),
    Kind("ensembles/*/evaluation/measures-*.json", ("evaluate both",)),
    Kind("ensembles/*/journal.jsonl", ("evaluate both", "status"), flips=False),
    Kind("comparisons/*/journal.jsonl", ("compare", "status"), flips=False),
    Kind("comparisons/*/summary.json", ("compare", "status"), flips=False),
    Kind("reports/*/journal.jsonl", ("report", "status"), flips=False),
    Kind("mlflow/shipped-embedded.json", ("train univse",)),
    Kind("mlflow/mlflow.db", ("train univse",)),
]


def command(job: str, root: Path) -> list[str]:
    """The command line of a job, with names of runs in place of their patterns."""
    name, *more = JOBS[job]
    for pattern in (UNIVSE, JWAE, VSEC):
        if (runs := list((root / "runs").glob(pattern))) and any(pattern in each for each in more):
            more = [each.replace(pattern, runs[0].name) for each in more]
    return [name, "--workspace", str(root), *more]


def run_here(job: str, root: Path) -> tuple[int, str, str]:
    """(exit status, stdout, stderr) of a job run in this process, as its file runs it."""
    name, *arguments = command(job, root)
    logging.getLogger("vse").handlers.clear()  # they write to the error stream of the job before
    out, error = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        patch.setattr(sys, "argv", [f"{name}.py", *arguments])
        try:
            runpy.run_path(str(ROOT / "jobs" / f"{name}.py"), run_name="__main__")
        except SystemExit as end:
            return int(end.code or 0), out.getvalue(), error.getvalue()
    raise AssertionError("a job ends by exiting")


def numbers(job: str, root: Path, out: str) -> Any:
    """What a job found, without paths and times."""
    if job == "status":
        return None
    path = Path(out.splitlines()[-1])
    if job == "report":
        return json.loads((path.parent / "table.json").read_text())
    headline = json.loads(path.read_text())["headline"]
    return {key: value for key, value in headline.items() if key != "trained" and "seconds" not in key}


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A workspace in which every job has run, and what each found."""
    root, found = tmp_path_factory.mktemp("damaged") / "workspace", dict[str, Any]()
    for job in JOBS:
        status, out, error = run_here(job, root)
        assert status == 0, error
        found[job] = numbers(job, root, out)
    return root, found


_denied = set[str]()


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    """As the system does for users without a right; tests may run as one who has all rights."""
    if _denied and event in ("open", "sqlite3.connect") and str(arguments[0]) in _denied:
        raise PermissionError(13, "Permission denied", str(arguments[0]))


@contextlib.contextmanager
def denied(*paths: Path) -> Generator[None]:
    """Nobody may read the files while the body runs."""
    if not _denied:
        _hook()
    _denied.update(map(str, paths))
    try:
        yield
    finally:
        _denied.clear()


def _hook(installed: list[bool] = []) -> None:  # noqa: B006  (a hook cannot be removed: one is enough)
    if not installed:
        sys.addaudithook(_audit)
        installed.append(True)


def prepared(root: Path, kind: Kind, to: Path) -> tuple[Path, list[Path]]:
    """A copy of the workspace in which somebody will look at the files of a kind, and these."""
    copy = Path(shutil.copytree(root, to, ignore=shutil.ignore_patterns("artifacts")))
    for pattern in kind.anew:
        for path in copy.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    files = sorted(path for path in copy.glob(kind.pattern) if path.stat().st_size)
    assert files, f"no {kind.pattern} in {root}"
    return copy, files


def one_line(error: str) -> bool:
    """Whether a job that failed said why in one line at the end, and never showed a stack."""
    return "Traceback" not in error and bool(error.strip())


@pytest.mark.slow
@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.pattern)
def test_damaged_files_are_made_again(kind: Kind, how: str, done: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    """All files of the kind at once. A job that only reads may refuse in one line until another has made them again."""
    root, files = prepared(done[0], kind, tmp_path / "workspace")
    for path in files:
        path.write_bytes(DAMAGE[how](path.read_bytes()))
    status, error = 1, ""
    for job in (*kind.jobs, kind.jobs[0]):
        status, out, error = run_here(job, root)
        assert one_line(error) or status == 0, error
        if status == 0:
            found = numbers(job, root, out)
            assert found == done[1][job] or (how == "flipped" and not kind.flips), job
        else:
            assert not job.startswith(MAKERS) or "checkpoints" in kind.pattern, f"{job}: {error}"
    assert status == 0, error


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.pattern)
def test_files_that_may_not_be_read_are_named(kind: Kind, done: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    root, files = prepared(done[0], kind, tmp_path / "workspace")
    before = {path: path.read_bytes() for path in files}
    for job in kind.jobs:
        with denied(*files):
            status, _, error = run_here(job, root)
        if status:
            assert one_line(error), error
            assert any(str(path) in error or path.name in error for path in files), error
            assert "ermission denied" in error
            assert "mlflow" in kind.pattern or {path: path.read_bytes() for path in files} == before
