"""One run from configuration to checkpoint: `run_training(config, workspace)` serves jobs and Tune trials alike."""

import logging
from dataclasses import dataclass
from typing import Any

from vse import registry
from vse.cluster.runtime import Config as RayConfig
from vse.cluster.runtime import num_gpus, running_ray
from vse.errors import InputError, TakenOver
from vse.stages import pipeline
from vse.stages.describe import sizes
from vse.stages.train_worker import Report, begin_journal, train_worker
from vse.storage.damage import listed
from vse.storage.folder import Folder
from vse.storage.lease import LeaseHandle
from vse.training.checkpoint import Checkpoints, read_progress
from vse.training.code import names_of, others, read_code
from vse.training.compatibility import check_objective
from vse.training.config import RunConfig, TrainConfig
from vse.training.description import what_is_trained
from vse.training.inputs import (
    Material,
    run_fingerprint,
)
from vse.training.killed import end_killed
from vse.training.origin import Origin, keep_origin, name_finished
from vse.training.run_story import (
    RESULT,
    close_journal,
    finished,
    run_journal,
    tells_epochs,
)
from vse.workspace.journal import read
from vse.workspace.layout import Workspace

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Result:
    """A finished run: `metrics` are those of epoch `best` but for times; `trained`: False where it was done before.

    trained_by: see `Progress`.
    """

    run: str
    folder: Folder
    metrics: dict[str, float]
    epochs: int
    best: int
    seconds: float
    trained: bool
    trained_by: list[dict[str, Any]]

    @property
    def checkpoint(self) -> Folder:
        """The kept checkpoint."""
        return self.folder.child("checkpoints", f"epoch-{self.best:04d}")


def run_name(config: RunConfig, material: Material) -> str:
    """Readable and unique: family, source, seed, fingerprint of configuration, data and revision of training."""
    family, source = registry.name_of("family", config.model), registry.name_of("source", config.data)
    return f"{family}-{source}-s{config.seed}-{run_fingerprint(config, material)}"


def run_training(
    config: RunConfig,
    workspace: Workspace,
    *,
    parent: str = "",
    origin: Origin | None = None,
    report: Report | None = None,
    ray: RayConfig | None = None,
) -> Result:
    """Train to the end and return the result; a finished run returns at once, a killed one goes on.

    One worker trains in this process if that has the GPUs it asks for, else in a Ray task; more are Ray Train's. All
    write to the same directory, which this process locks: of several that want the run, one trains and the others wait
    and find it finished. `report` hears the numbers of every epoch; `parent` is the run under which trackers nest this
    one; `ray` says which Ray, unless this process is connected to one. What other code trained or began is used and
    warned of.
    """
    read_code()  # stages may take long, and sources may change meanwhile
    check_objective(config)
    material = pipeline.prepare(config, workspace, ray=ray)
    name = run_name(config, material)
    folder, trained = workspace.run(name), False
    if _closed(workspace, name):
        if origin is not None:
            name_finished(workspace, folder, origin)
    else:
        if folder.is_locked():
            log.warning("%s: another process holds its lock; waiting for that to end", name)
        with folder.locked() as held:  # workers take none, so that lost ones can be replaced
            if origin is not None:
                keep_origin(folder, origin)
            if finished(folder) is None:
                _warn_damaged(folder)
                _warn_begun(folder)
                log.info("%s", what_is_trained(config))
                log.info("run %s, %s", name, sizes(material.records))
                _train(config, workspace, name, material, parent, report, ray, held)
                trained = True
            elif not _closed(workspace, name):
                journal = run_journal(workspace, name)
                begin_journal(journal, config, folder, material, name, parent)
                close_journal(config.train, journal, folder, folder.read_json(RESULT))
    result = _result(name, folder, trained)
    if not trained and (theirs := others(result.trained_by)):
        log.warning(
            "warning: %s was trained with other code (%s); to train it again, remove %s", name, names_of(theirs), folder
        )
    return result


def _train(
    config: RunConfig,
    workspace: Workspace,
    name: str,
    material: Material,
    parent: str,
    report: Report | None,
    ray: RayConfig | None,
    held: LeaseHandle,
) -> None:
    if trains_here(config.train):
        return train_worker(config, workspace, name, material, parent, report, held)
    try:
        with running_ray(ray):
            from vse.stages import train_ray as distributed  # Ray reads its settings when it is imported

            train = distributed.train_on_workers if config.train.workers > 1 else distributed.train_in_task
            return train(config, workspace, name, parent, report, held=held)
    except TakenOver:
        raise  # and another trains it
    except BaseException:
        end_killed(workspace, name)  # its workers are gone, and were not asked
        raise


def _warn_damaged(folder: Folder) -> None:
    """Say which checkpoints cannot be used, and from where they are made again."""
    checkpoints = Checkpoints(folder.child("checkpoints"))
    if damaged := checkpoints.damaged():
        newest = checkpoints.newest()
        where = "the beginning" if newest is None else f"checkpoint {newest.name}"
        log.warning("%s: %s; trained again from %s", checkpoints.folder, listed(damaged), where)


def _warn_begun(folder: Folder) -> None:
    checkpoints = folder.child("checkpoints")
    try:
        progress = read_progress(checkpoints.child(checkpoints.names()[-1]))
    except (IndexError, FileNotFoundError, InputError):  # none, or a damaged one: whoever resumes will see
        return
    if theirs := others(progress.trained_by):
        line = "warning: %s was begun with other code (%s) and continues with this; to train it anew, remove %s"
        log.warning(line, folder.name, names_of(theirs), folder)


def trains_here(train: TrainConfig) -> bool:
    """Whether this process is where a run trains."""
    return train.workers == 1 and train.gpus_per_worker <= num_gpus()


def _closed(workspace: Workspace, name: str) -> bool:
    """Whether a run is finished and its journal says so; what is written without waiting for the disk may have been
    lost with its last seconds."""
    folder = workspace.run(name)
    result = finished(folder)
    if result is None or not _is_json(folder, "config.json"):
        return False
    story = read(run_journal(workspace, name).path)
    return story.status == "finished" and tells_epochs(story, result)


def _is_json(folder: Folder, name: str) -> bool:
    try:
        return bool(folder.read_json(name))
    except (FileNotFoundError, InputError):
        return False


def _result(name: str, folder: Folder, trained: bool) -> Result:
    data = folder.read_json(RESULT)
    return Result(
        name, folder, data["metrics"], data["epochs"], data["best"], data["seconds"], trained, data["trained_by"]
    )
