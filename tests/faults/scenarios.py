"""What is run and killed: small ways through all stages, each within a minute on a quiet machine of two cores."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.jobs.processes import command

Arguments = Callable[["Place"], list[str]]
SIZES = ("data.num_train=40", "data.num_val=10", "data.num_test=10", "data.num_shifted=0")
SPACE = "from ray import tune\nSPACE = {'model.alpha': tune.grid_search([0.0, 0.5, 1.0])}\n"


@dataclass(frozen=True)
class Place:
    """Where a scenario works: `workspace` as jobs are told it, `files` where plain readers find what is in it, `store`
    MLflow's database; `variables` are added to the environment of jobs."""

    folder: Path
    workspace: str
    files: Path
    store: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def local(cls, folder: Path) -> "Place":
        """A workspace on this machine's disk, with the store that is part of it."""
        files = folder / "workspace"
        return cls(folder, str(files), files, files / "mlflow" / "mlflow.db")


@dataclass(frozen=True)
class Scenario:
    """Commands that follow each other in one workspace, and which processes they have.

    served: the workspace is on a server of S3, and runs are tracked by a server of MLflow.
    """

    name: str
    victims: tuple[str, ...]
    commands: tuple[Arguments, ...]
    served: bool = False


def _extract(place: Place) -> list[str]:
    more = ("outputs=map", "extraction.workers=1", "ray.cpus=2")
    return command("extract_features", place.workspace, "--preset", "univse_tiny", *SIZES, *more)


def _sweep(place: Place) -> list[str]:
    space = place.folder / "coarse.py"
    space.write_text(SPACE)
    more = ("sweep.seeds=0", f"sweep.space={space}", "sweep.name=curve", "sweep.reference=none", "train.epochs=4")
    return command("sweep_alpha", place.workspace, "--preset", "univse_tiny", *SIZES, *more)


def _train(place: Place) -> list[str]:
    more = ("train.workers=2", "train.epochs=30", "train.batch_size=16")
    return command("train", place.workspace, "--preset", "vsepp_tiny", *SIZES, *more)


def _evaluate(place: Place) -> list[str]:
    return command("evaluate", place.workspace, f"run={_run(place)}")


def _report(place: Place) -> list[str]:
    return command("report", place.workspace, f"runs={_run(place)}")


def _run(place: Place) -> str:
    (run,) = (path.name for path in (place.files / "runs").iterdir())
    return run


SWEEP = Scenario("sweep", ("driver", "trial", "data actor", "raylet"), (_extract, _sweep))
WORKERS = Scenario("workers", ("driver", "train worker", "raylet"), (_train, _evaluate, _report))
SERVED_SWEEP = Scenario(
    "served sweep", ("mlflow server", "s3 server", "driver", "trial", "raylet"), SWEEP.commands, True
)
SERVED_WORKERS = Scenario(
    "served workers", ("mlflow server", "s3 server", "driver", "train worker", "raylet"), WORKERS.commands, True
)


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
