"""One run from configuration to checkpoint: `run_training(config, workspace)` serves jobs and Tune trials alike."""

import contextlib
import logging
import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from vse import registry
from vse.cluster.runtime import Config as RayConfig
from vse.cluster.runtime import num_gpus, running_ray
from vse.config import flatten, to_dict
from vse.determinism import use_reproducible_arithmetic
from vse.errors import InputError, StorageError, TakenOver, first_line, storage_failure
from vse.evaluation.codes import encode_examples
from vse.evaluation.metrics import RetrievalCounter
from vse.evaluation.retrieval import count_retrieval
from vse.models.family import Family, feature_scales
from vse.presets import from_data
from vse.stages import pipeline
from vse.stages.describe import sizes
from vse.stages.tuning import Tuning, tuning_of
from vse.storage.damage import listed
from vse.storage.folder import Folder
from vse.storage.lease import LeaseHandle
from vse.tracking import prometheus
from vse.training.allocator import keep_freed_memory
from vse.training.batches import Collator
from vse.training.checkpoint import Checkpoints, Progress, read_progress
from vse.training.code import names_of, others, read_code
from vse.training.collectives import add_up, together, world
from vse.training.config import RunConfig, TrainConfig, check_objective, family_inputs
from vse.training.examples import Examples
from vse.training.inputs import (
    Material,
    TrainingInputs,
    feature_blocks,
    initial_family,
    known_captions,
    make_collator,
    run_fingerprint,
    training_batches,
    training_inputs,
    warn_unfamiliar,
)
from vse.training.loop import PERMANENT_ERRORS, Hooks, Loop
from vse.training.run_journal import (
    RESULT,
    Origin,
    close_journal,
    describe_beginning,
    end_killed,
    finished,
    keep_origin,
    name_finished,
    numbers,
    open_journal,
    run_journal,
    tell_epoch,
    tell_epochs,
    tells_epochs,
    what_is_trained,
)
from vse.workspace.journal import Journal, read
from vse.workspace.layout import Workspace

log = logging.getLogger(__name__)

Report = Callable[[dict[str, float]], None]


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
    """Train to the end and return the result. A finished run returns at once; a killed run continues.

    One worker trains in this process if that has the GPUs it needs, else in a Ray task; more are Ray Train's. A run is
    locked: of several processes one trains and the others wait. What other code trained or began is used and warned of.

    Args:
        config, workspace: what is trained, and where the run and the results of earlier stages are.
        parent: the run under which trackers nest this one; empty for none.
        origin: the preset that a command named, recorded with the run unless it has one.
        report: called with the numbers of every epoch that is trained from now on.
        ray: how to connect to Ray, if it is needed and this process is not connected; None: the defaults.
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
            log.warning("%s: another process is training this run; waiting for it to finish", name)
        with folder.locked() as lease:  # workers take none, so that lost ones can be replaced
            if origin is not None:
                keep_origin(folder, origin)
            if finished(folder) is None:
                _warn_damaged(folder)
                _warn_begun(folder)
                log.info("%s", what_is_trained(config))
                log.info("run %s, %s", name, sizes(material.records))
                _train(config, workspace, name, material, parent, report, ray, lease)
                trained = True
            elif not _closed(workspace, name):
                journal = run_journal(workspace, name)
                begin_journal(journal, config, folder, material, name, parent)
                close_journal(journal, folder, folder.read_json(RESULT))
    result = _result(name, folder, trained)
    if not trained and (other_code := others(result.trained_by)):
        log.warning(
            "warning: %s was trained with other code (%s); to train it again, remove %s",
            name,
            names_of(other_code),
            folder,
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
    lease: LeaseHandle,
) -> None:
    if trains_here(config.train):
        with running_ray(ray) if config.train.decoders else contextlib.nullcontext():
            return train_worker(config, workspace, name, material, parent, report, lease)
    try:
        with running_ray(ray):
            from vse.stages import train_ray as distributed  # Ray reads its settings when it is imported

            train = distributed.train_on_workers if config.train.workers > 1 else distributed.train_in_task
            return train(run_worker, config, workspace, name, parent, report, lease=lease)
    except TakenOver:
        raise  # and another trains it
    except BaseException:
        end_killed(workspace, name)  # its workers are gone, and were not asked
        raise


def _warn_damaged(folder: Folder) -> None:
    """Log the damaged checkpoints, and the checkpoint from which training continues."""
    checkpoints = Checkpoints(folder.child("checkpoints"))
    if damaged := checkpoints.damaged():
        newest = checkpoints.newest()
        where = "the beginning" if newest is None else f"checkpoint {newest.name}"
        log.warning("%s: %s; trained again from %s", checkpoints.folder, listed(damaged), where)


def _warn_begun(folder: Folder) -> None:
    checkpoints = folder.child("checkpoints")
    try:
        progress = read_progress(checkpoints.child(checkpoints.names()[-1]))
    except (IndexError, FileNotFoundError, InputError):  # none, or a damaged one, which resuming reports
        return
    if other_code := others(progress.trained_by):
        line = "warning: %s was started with other code (%s) and continues with this; to train it again, remove %s"
        log.warning(line, folder.name, names_of(other_code), folder)


def trains_here(train: TrainConfig) -> bool:
    """Whether a run trains in this process."""
    return train.workers == 1 and train.gpus_per_worker <= num_gpus()


def _closed(workspace: Workspace, name: str) -> bool:
    """Whether a run is finished and its journal says so; what is written without waiting for the disk may have been
    lost with its last seconds."""
    folder = workspace.run(name)
    result = finished(folder)
    if result is None or not _is_json(folder, "config.json"):
        return False
    state = read(run_journal(workspace, name).path)
    return state.status == "finished" and tells_epochs(state, result)


def _is_json(folder: Folder, name: str) -> bool:
    try:
        return bool(folder.read_json(name))
    except (FileNotFoundError, InputError):
        return False


def _result(name: str, folder: Folder, trained: bool) -> Result:
    data = folder.read_json(RESULT)
    fields = {key: data[key] for key in ("metrics", "epochs", "best", "seconds", "trained_by")}
    return Result(run=name, folder=folder, trained=trained, **fields)


def build_family(config: RunConfig, data: TrainingInputs) -> Family:
    """The family with initial weights drawn from the seed and statistics of all training images and captions, in the
    precision of its parameters.

    Whose image a caption shows plays no part in them; what is fitted in closed form learns from known pairs alone.
    """
    torch.manual_seed(config.seed)
    family = initial_family(config, data.context)
    for scale in feature_scales(family):
        scale.fit(feature_blocks(data.train.features[family.inputs.image]))
    every, known = np.arange(len(data.train)), known_captions(config, data.train)
    family.fit(*(partial(training_batches, data.train, family.inputs, rows) for rows in (every, known)))
    return family.double() if config.train.precision == "float64" else family


@torch.inference_mode()
def validate(family: Family, val: Examples, tuning: Tuning | None = None) -> dict[str, float]:
    """Retrieval on validation, by which the best epoch is chosen.

    Workers call it together: each encodes the split and scores its share of the blocks, and the counts are added up.
    """
    shown = val if tuning is None else tuning.validation(val)

    def count() -> RetrievalCounter:
        codes = encode_examples(family, shown)
        return count_retrieval(family, codes.images, codes.captions, codes.caption_to_image, share=world())

    counter = together(count, *PERMANENT_ERRORS)
    add_up(counter.counts())
    return {f"val/{key}": value for key, value in counter.result().metrics().items()}


def train_worker(
    config: RunConfig,
    workspace: Workspace,
    name: str,
    material: Material,
    parent: str = "",
    report: Report | None = None,
    lease: LeaseHandle | None = None,
) -> None:
    """Train in one worker, within its process group if there is one. Rank 0 writes, while `lease` holds."""
    folder, rank = workspace.run(name), world()[0]
    torch.set_num_threads(config.train.threads)
    keep_freed_memory()
    inputs = family_inputs(config)
    objective = registry.build("objective", config.objective)

    def set_up() -> tuple[TrainingInputs, Family, Collator, Journal | None, Tuning | None]:
        device = training_device(config.train)
        data = training_inputs(config, material, inputs)
        family = build_family(config, data).to(device)
        journal = run_journal(workspace, name) if rank == 0 else None
        if journal is not None:
            warn_unfamiliar(material.records, data.vocabulary)
            begin_journal(journal, config, folder, material, name, parent)
            journal.metrics(dict(data.coverage), step=0)
        tuning = tuning_of(config, material, workspace, family, data.vocabulary)
        collate = make_collator(config, data, inputs, objective.negatives)
        collate.pixels = None if tuning is None else tuning.pixels
        return data, family, collate, journal, tuning

    data, family, collate, journal, tuning = together(set_up, *PERMANENT_ERRORS)

    def epoch_done(epoch: int, row: dict[str, float]) -> None:
        assert journal is not None
        tell_epoch(journal, epoch, row)
        if report is not None:
            report({**numbers(row), "epoch": epoch})

    def note(line: str) -> None:
        assert journal is not None
        journal.note(line)

    checkpoints = Checkpoints(
        folder.child("checkpoints"),
        {"config.json": to_dict(config), **data.checkpoint_files(material)},
        lease,
    )
    steps = prometheus.steps_of(parent or name)
    try:
        together(lambda: _tell_again(config, journal, checkpoints), *PERMANENT_ERRORS)
        hooks = Hooks(lambda family: validate(family, data.val, tuning), epoch_done, note, steps)
        tuner = None if tuning is None else tuning.tuner
        progress = Loop(config, family, objective, collate, checkpoints, hooks, tuner).run()
    except BaseException as error:
        if journal is not None and not isinstance(error, TakenOver):  # then the story is another's
            killed = isinstance(error, KeyboardInterrupt | SystemExit)
            if not killed:
                journal.note(f"{type(error).__name__}: {first_line(error)}"[:300])
            journal.end("killed" if killed else "failed")
        raise
    finally:
        if steps is not None:
            steps.close()
    together(
        lambda: _finish(config, journal, folder, progress, checkpoints.lease) if journal else None, *PERMANENT_ERRORS
    )


def run_worker(arguments: dict[str, Any]) -> tuple[str, str] | None:
    """Train in a process of Ray, with the arguments of `train_ray.worker_arguments`.

    Returns (kind, text) of an error that a retry would repeat, since Ray retries after any that is raised.
    """
    read_code()  # as in run_training
    try:
        config = from_data(arguments["config"])
        workspace = Workspace.open(arguments["workspace"], arguments["external"])
        material = together(lambda: pipeline.prepare(config, workspace), *PERMANENT_ERRORS)
        train_worker(config, workspace, arguments["run"], material, arguments["parent"], lease=arguments["lease"])
    except PERMANENT_ERRORS as error:
        return next(kind.__name__ for kind in PERMANENT_ERRORS if isinstance(error, kind)), str(error)
    except OSError as error:
        if text := storage_failure(error):
            return StorageError.__name__, text
        raise
    return None


def training_device(train: TrainConfig) -> torch.device:
    """The device of a worker, set to reproducible arithmetic. Raises InputError if it needs a GPU and has none."""
    if train.gpus_per_worker and not torch.cuda.is_available():
        raise InputError(f"train.gpus_per_worker={train.gpus_per_worker:g}: torch finds no GPU on {platform.node()}")
    device = torch.device("cuda" if train.gpus_per_worker else "cpu")
    use_reproducible_arithmetic(device)
    return device


def _finish(config: RunConfig, journal: Journal, folder: Folder, progress: Progress, lease: LeaseHandle) -> None:
    kept = progress.history[progress.best - 1]
    result = {
        "metrics": {name: value for name, value in numbers(kept).items() if name != "train/seconds"},
        "epochs": progress.epoch,
        "best": progress.best,
        "seconds": progress.seconds,
        "history": progress.history,
        "trained_by": progress.trained_by,
    }
    lease.check()
    folder.write_checked(RESULT, result)
    close_journal(journal, folder, result)


def _tell_again(config: RunConfig, journal: Journal | None, checkpoints: Checkpoints) -> None:
    """Put finished epochs that the journal lacks into it: a kill may have come between checkpoint and record, and a
    power cut may have taken the last of what was not yet on the disk.

    Every worker reads the checkpoint, so that all of them refuse one that does not fit and none waits for the others.
    """
    newest = checkpoints.newest()
    if newest is not None:
        before = read_progress(newest)
        if journal is not None:
            tell_epochs(journal, before.history)


def begin_journal(
    journal: Journal, config: RunConfig, folder: Folder, material: Material, name: str, parent: str
) -> None:
    """Write what is trained into the journal of a run, and its configuration into its folder."""
    open_journal(journal, folder, name, parent, material.fingerprints, flatten(config))
    describe_beginning(journal, config, folder, sizes(material.records), parent)
    folder.write_json("config.json", to_dict(config))
