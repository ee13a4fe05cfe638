"""A task done: trained, measured, and its result written."""

from typing import Any

from torch import Tensor

from vse.config import to_dict
from vse.errors import Diverged
from vse.stages.train import run_training
from vse.stages.trained import load_run
from vse.storage.folder import Folder
from vse.studies.measure import measure
from vse.studies.tables import packed
from vse.studies.tasks import Task
from vse.training.code import this_code
from vse.workspace.layout import Workspace


def perform(task: Task) -> str:
    """Train, measure and write the result; runs in a worker process. Returns the task's name.

    A candidate of a search that diverges is one with an rsum of 0. An arm that does raises Diverged.
    """
    workspace, folder, measured_by = Workspace.open(task.workspace), Folder.open(task.results), this_code(task.config)
    try:
        result = run_training(task.config, workspace)
    except Diverged as error:
        if task.splits:
            raise
        found = {"label": task.label, "seed": task.config.seed, "diverged": str(error), "metrics": {"val/rsum": 0.0}}
        folder.write_json(f"{task.name}.json", {**found, "configuration": to_dict(task.config)})
        return task.name
    summary: dict[str, Any] = {
        "label": task.label,
        "seed": task.config.seed,
        "run": result.run,
        "seconds": result.seconds,
        "epochs": result.epochs,
        "best_epoch": result.best,  # so that it shows where a run was kept from its warm-up
        "metrics": result.metrics,
        "configuration": to_dict(task.config),
        "trained_by": result.trained_by,
        "measured_by": measured_by,
    }
    if task.splits:
        trained = load_run(result.folder)
        if isinstance(learned := getattr(trained.family, "alpha", None), Tensor):
            summary["learned_alpha"] = learned.item()
        tables, summary["alphas"] = measure(task, workspace, trained)
        folder.write_bytes(f"{task.name}.parquet", packed(tables))
    folder.write_json(f"{task.name}.json", summary)
    return task.name
