"""What is run and killed: small ways through all stages, each within a minute on a quiet machine of two cores."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.jobs.processes import command

Arguments = Callable[[Path], list[str]]
SIZES = ("data.num_train=40", "data.num_val=10", "data.num_test=10", "data.num_shifted=0")
SPACE = "from ray import tune\nSPACE = {'model.alpha': tune.grid_search([0.0, 0.5, 1.0])}\n"


@dataclass(frozen=True)
class Scenario:
    """Commands that follow each other in one workspace, and which processes they have."""

    name: str
    victims: tuple[str, ...]
    commands: tuple[Arguments, ...]


def _extract(workspace: Path) -> list[str]:
    more = ("outputs=map", "extraction.workers=1", "ray.cpus=2")
    return command("extract_features", workspace, "--preset", "univse_tiny", *SIZES, *more)


def _sweep(workspace: Path) -> list[str]:
    space = workspace.parent / "coarse.py"
    space.write_text(SPACE)
    more = ("sweep.seeds=0", f"sweep.space={space}", "sweep.name=curve", "sweep.reference=none", "train.epochs=4")
    return command("sweep_alpha", workspace, "--preset", "univse_tiny", *SIZES, *more)


def _train(workspace: Path) -> list[str]:
    more = ("train.workers=2", "train.epochs=30", "train.batch_size=16")
    return command("train", workspace, "--preset", "vsepp_tiny", *SIZES, *more)


def _evaluate(workspace: Path) -> list[str]:
    return command("evaluate", workspace, f"run={_run(workspace)}")


def _report(workspace: Path) -> list[str]:
    return command("report", workspace, f"runs={_run(workspace)}")


def _run(workspace: Path) -> str:
    (run,) = (path.name for path in (workspace / "runs").iterdir())
    return run


SWEEP = Scenario("sweep", ("driver", "trial", "data actor", "raylet"), (_extract, _sweep))
WORKERS = Scenario("workers", ("driver", "train worker", "raylet"), (_train, _evaluate, _report))
SCENARIOS = {scenario.name: scenario for scenario in (SWEEP, WORKERS)}


def stage(workspace: Path, job: str) -> str:
    """Which stage a command is in, by what it has left so far."""

    def there(pattern: str) -> bool:
        return any(workspace.glob(pattern))

    if job in ("evaluate", "report"):
        return {"evaluate": "evaluation"}.get(job, job)
    if not there("datasets/*/manifest.json"):
        return "start and description"
    if not there("features/*/*/manifest.json"):
        return "extraction"
    if job == "extract_features":
        return "end of extraction"
    if job == "sweep_alpha" and not there("language/*/*/manifest.json"):
        return "parsing"
    if not there("runs/*/result.json"):
        return "training" if there("runs/*/journal.jsonl") else "between parsing and training"
    if job == "train":
        return "end of training"
    if not there("sweeps/*/results.json"):
        return "evaluation and sweep"
    return "report"


def job_of(arguments: list[str]) -> str:
    """The name of the job in a command line."""
    assert arguments[0] == sys.executable
    return Path(arguments[1]).stem
