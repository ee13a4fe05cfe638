"""How long a training will take: from runs like it in the workspace, otherwise from timed steps.

Timed steps run in this process and leave nothing behind.
"""

import contextlib
import math
import statistics
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from vse import registry
from vse.cli.command import Request
from vse.config import dotted, override, to_dict
from vse.data.records import Records
from vse.errors import InputError, NotMadeError
from vse.features.store import StoredFeatures
from vse.report.build import command_of
from vse.stages import pipeline
from vse.stages.train import build_family, training_device, validate
from vse.stages.tuning import tuning_of
from vse.storage.files import scratch_folder
from vse.storage.folder import Folder
from vse.storage.parallel_reads import read_each
from vse.storage.read_only import SealedFolder
from vse.training.allocator import keep_freed_memory
from vse.training.checkpoint import Checkpoints, Progress
from vse.training.config import RunConfig, TrainConfig, family_inputs
from vse.training.inputs import Material, make_collator, training_inputs
from vse.training.loop import Hooks, Loop
from vse.workspace.layout import Workspace
from vse.workspace.provenance import gpus

ENOUGH = 20  # runs for a median; a workspace may have thousands, each of which is two requests to a store
_BATCH = 64  # runs that are read at once
WARM_UP = 3  # steps that do not count: memory, threads and the queue of batches settle
SECONDS = 2.0  # of steps that count
TRAIN_IMAGES, VAL_IMAGES = 1000, 250  # at most so many are read; the times are scaled to all


@dataclass(frozen=True)
class Estimate:
    """Expected seconds of one trial and their source. Without an estimate, None and the reason."""

    seconds: float | None
    source: str

    def without(self, what: str) -> "Estimate":
        """The same estimate, with a note that it leaves out `what`."""
        return replace(self, source=f"{self.source}; {what} comes on top") if what and self.seconds else self


def estimate(
    config: RunConfig,
    searched: Collection[str],
    workspace: Workspace,
    request: Request,
    *,
    next_on_gpu: bool = False,
    records: Records | None = None,
) -> Estimate:
    """How long one training of a configuration takes. Writes nothing into the workspace.

    Args:
        config: The run configuration.
        searched: Keys in which similar runs may differ, besides seed and epochs.
        workspace: With the runs and the features.
        request: Of the user, for the command that makes missing features.
        next_on_gpu: Whether trials on a GPU of this machine are next. No steps are then timed on it, because a process
            that has used a GPU keeps some of its memory.
        records: Of the configured source, if they were read before.
    """
    measured = by_runs(config, searched, workspace)
    if measured is not None:
        return measured
    if next_on_gpu and config.train.gpus_per_worker:
        return Estimate(None, "no run like these is in the workspace")
    return _by_steps(config, workspace, request, records)


def by_runs(config: RunConfig, searched: Collection[str], workspace: Workspace) -> Estimate | None:
    """Seconds of a training by the runs like it in a workspace: their median seconds of an epoch, times epochs.

    Args:
        config: The configuration to train.
        searched: Dotted keys in which similar runs may differ, besides seed and epochs.
        workspace: Where the runs are.

    Returns:
        None if no similar run has finished. A similar run that ended before its last epoch lets this one end there too.
    """
    ignored, runs = {"seed", "train.epochs", *searched}, workspace.root.child("runs")

    def fixed(settings: dict[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in dotted(settings).items() if key not in ignored}

    wanted, each = fixed(to_dict(config)), list[float]()

    def seconds_by(name: str) -> float | None:
        """Seconds of the training by one run; None if the run is not similar or has not finished."""
        try:
            settings = runs.child(name).read_json("config.json")
            if fixed(settings) != wanted:
                return None
            result = runs.child(name).read_json("result.json")
        except (InputError, FileNotFoundError, NotADirectoryError):
            return None
        if not (trained := result.get("epochs")):
            return None
        # a run that ended before its last epoch says that this one may end there too
        epochs = min(trained, config.train.epochs) if trained < settings["train"]["epochs"] else config.train.epochs
        return result["seconds"] / trained * epochs

    names = runs.names()
    for start in range(0, len(names), _BATCH):
        each += filter(None, read_each(runs, seconds_by, names[start : start + _BATCH]))
        if len(each) >= ENOUGH:
            break
    if not each:
        return None
    return Estimate(statistics.median_high(each), f"median epoch of {len(each)} runs like these")


def _by_steps(config: RunConfig, workspace: Workspace, request: Request, records: Records | None) -> Estimate:
    none = "no run like these is in the workspace, and"
    if config.train.gpus_per_worker and not gpus():
        return Estimate(None, f"{none} there is no GPU here to time a step on")
    try:
        material = pipeline.prepare(config, Workspace(SealedFolder(workspace.root.uri)), records=records)
    except NotMadeError as error:
        kind = str(error).removeprefix(workspace.root.uri.partition("?")[0]).lstrip("/").split("/")[0]
        if kind == "language":  # parses, word and sentence vectors, adversaries: a short run makes all that it reads
            what, command = "what it reads of the captions is", command_of(request, "train", "train.epochs=1")
        else:
            outputs = f"outputs={family_inputs(config).image}"
            what, command = "features are", command_of(request, "extract_features", outputs)
        return Estimate(None, f"{none} {what} not there to time a step on; {command} makes that")
    timing = time_training(config, material, workspace)
    if timing is None:
        return Estimate(None, f"{none} a fit in closed form has no step to time")
    source = f"timed here: {1000 * timing.step:.0f} ms per step, {timing.steps} steps per epoch"
    if config.train.workers > 1:
        source += f", shared by {config.train.workers} workers; plus their start-up"
    return Estimate(timing.seconds(config.train), source)


@dataclass(frozen=True)
class Timing:
    """Seconds of the parts of a run on one worker. `steps` is the number of steps in an epoch."""

    set_up: float
    step: float
    steps: int
    validation: float
    checkpoint: float

    def seconds(self, train: TrainConfig) -> float:
        """Estimated seconds of a whole run without early stopping, if workers divide the time of a step evenly."""
        validations = math.ceil(train.epochs / train.evaluate_every)
        epochs = train.epochs * (self.step * self.steps / train.workers + self.checkpoint)
        return self.set_up + epochs + validations * self.validation


class _Enough(Exception):  # noqa: N818  (ends the loop, and is no error)
    pass


class _NoCheckpoints(Checkpoints):
    """Saves nothing, because the timed epochs have few steps and saving would dominate them."""

    def save(self, progress: Progress, model: Any, optimizers: Any, scaler: Any, tuner: Any = None) -> Folder:
        return self.folder


def time_training(
    config: RunConfig, material: Material, workspace: Workspace, seconds: float = SECONDS
) -> Timing | None:
    """Set up a run as training does, make some steps, validate once and write one checkpoint.

    Args:
        config: The run configuration.
        material: Its data; features of some of the images are read.
        workspace: Holds the run that `train.warm_start` names.
        seconds: How long training steps are timed.

    Returns:
        None for a family that is fitted in closed form and makes no steps.
    """
    train, threads = config.train, torch.get_num_threads()
    endless = {"train.workers": 1, "train.epochs": 10**6, "train.patience": 0, "train.evaluate_every": 10**6}
    if config.train.finetune:
        endless["train.decoders"] = 0  # Ray need not run yet
    steps = list[tuple[int, float]]()  # captions and seconds of each

    def stepped(captions: int, took: float, waited: float) -> None:
        steps.append((captions, took))
        if sum(took for _, took in steps[WARM_UP:]) >= seconds:
            raise _Enough

    with scratch_folder("timing") as scratch:
        torch.set_num_threads(train.threads)
        keep_freed_memory()
        try:
            begun = time.monotonic()
            part, own = _part_of(material, scratch), override(config, endless)
            inputs, objective = family_inputs(own), registry.build("objective", own.objective)
            data = training_inputs(own, part, inputs)
            family = build_family(own, data).to(training_device(own.train))
            tuning = tuning_of(own, part, workspace, family, data.vocabulary)
            pixels, tuner = (None, None) if tuning is None else (tuning.pixels, tuning.tuner)
            collate = make_collator(own, data, inputs, objective.negatives)
            collate.pixels = pixels
            folder = Folder.open(str(scratch))
            hooks = Hooks(lambda family: {}, lambda epoch, row: None, lambda text: None, stepped)
            loop = Loop(own, family, objective, collate, _NoCheckpoints(folder.child("none")), hooks, tuner)
            set_up = time.monotonic() - begun
            if not loop.stepper.phases:
                return None
            with contextlib.suppress(_Enough):
                loop.run()
            stopped = time.monotonic()
            family.eval()
            validate(family, data.val, tuning)
            validation = time.monotonic() - stopped
        finally:
            torch.set_num_threads(threads)
        begun = time.monotonic()
        Checkpoints(folder.child("kept")).save(Progress(), family, loop.stepper.optimizers, {}, tuner)
        checkpoint = time.monotonic() - begun
    (all_train, all_val), (read_train, read_val) = (_captions(each.records) for each in (material, part))
    counted = [sum(each) for each in zip(*steps[WARM_UP:], strict=True)]
    captions = len(collate.captions) * all_train / read_train
    per_epoch = math.ceil(captions / train.batch_size)
    power = 2 if family.pairwise else 1  # these score every image with every caption
    return Timing(
        set_up=set_up,
        step=counted[1] / counted[0] * captions / per_epoch,
        steps=per_epoch,
        validation=validation * (all_val / read_val) ** power,
        checkpoint=checkpoint,
    )


def _part_of(material: Material, scratch: Path) -> Material:
    """The first images of training and validation with their captions, features cached in `scratch`."""
    assert isinstance(material.features, StoredFeatures)
    records = material.records
    images = [
        image
        for split, most in (("train", TRAIN_IMAGES), ("val", VAL_IMAGES))
        for image in [image for image in records.images if image.split == split][:most]
    ]
    kept = {image.id for image in images}
    captions = tuple(caption for caption in records.captions if caption.image in kept)
    part = Records(records.name, tuple(images), captions, records.source)
    return replace(material, records=part, features=replace(material.features, cache=str(scratch)))


def _captions(records: Records) -> tuple[int, int]:
    """The number of training and of validation captions."""
    return len(records.split("train").captions), len(records.split("val").captions)
