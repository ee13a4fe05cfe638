"""How long a training will take: from runs like it in the workspace, otherwise from timed steps.

Timed steps run in this process and leave nothing behind.
"""

import contextlib
import dataclasses
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from vse import registry
from vse.cli.command import Request
from vse.config import override, to_dict
from vse.data.records import Records
from vse.errors import InputError, NotMadeError
from vse.features.stored import StoredFeatures
from vse.stages import pipeline
from vse.stages.train_worker import build_family, training_device, validate
from vse.storage.files import scratch_folder
from vse.storage.folder import Folder
from vse.storage.parallel_reads import read_each
from vse.storage.read_only import SealedFolder
from vse.training.allocator import keep_freed_memory
from vse.training.batches import Collator
from vse.training.checkpoint import Checkpoints, Progress
from vse.training.compatibility import family_inputs
from vse.training.config import RunConfig, TrainConfig
from vse.training.inputs import Material, TrainingInputs, make_collator, training_inputs
from vse.training.loop import Hooks, Loop
from vse.workspace.layout import Workspace
from vse.workspace.provenance import gpus

WARM_UP = 3  # steps that do not count: memory, threads and batches in waiting settle
SECONDS = 2.0  # of steps that count
TRAIN_IMAGES, VAL_IMAGES = 1000, 250  # as many are read; what is larger is scaled up


@dataclass(frozen=True)
class Timing:
    """Seconds of the parts of a run on one worker; `steps` of how many captions together an epoch has."""

    set_up: float
    step: float
    steps: int
    validation: float
    checkpoint: float

    def seconds(self, train: TrainConfig) -> float:
        """Of a whole run, if patience ends it not before and workers share a step without loss."""
        validations = math.ceil(train.epochs / train.evaluate_every)
        epochs = train.epochs * (self.step * self.steps / train.workers + self.checkpoint)
        return self.set_up + epochs + validations * self.validation


class _Enough(Exception):  # noqa: N818  (ends the loop, and is no error)
    pass


class _Unsaved(Checkpoints):
    """So that epochs of few steps spend their time on steps."""

    def save(self, progress: Progress, model: Any, optimizers: Any, scaler: Any) -> Folder:
        return self.folder


@dataclass
class _Clock:
    """Hears of steps; raises _Enough once those after the warm-up took long enough."""

    limit: float
    heard: int = 0
    captions: int = 0
    seconds: float = 0.0

    def stepped(self, captions: int, seconds: float, waited: float) -> None:
        self.heard += 1
        if self.heard <= WARM_UP:
            return
        self.captions += captions
        self.seconds += seconds
        if self.seconds >= self.limit:
            raise _Enough


def time_training(config: RunConfig, material: Material, seconds: float = SECONDS) -> Timing | None:
    """Set up a run as training does, make steps for so many seconds, validate once and write one checkpoint.

    Works on `material` as it is, reads features of part of the images and writes to a temporary folder only. None for a
    family that is fitted in closed form and makes no steps.
    """
    train, threads = config.train, torch.get_num_threads()
    endless = {"train.workers": 1, "train.epochs": 10**6, "train.patience": 0, "train.evaluate_every": 10**6}
    with scratch_folder("timing") as scratch:
        torch.set_num_threads(train.threads)
        keep_freed_memory()
        try:
            begun = time.monotonic()
            part = _part_of(material, scratch)
            data, collate, loop, clock = _loop(override(config, endless), part, scratch, seconds)
            set_up = time.monotonic() - begun
            if not loop.stepper.phases:
                return None
            with contextlib.suppress(_Enough):
                loop.run()
            checked = time.monotonic()
            loop.family.eval()
            validate(loop.family, data.val)
            validation = time.monotonic() - checked
        finally:
            torch.set_num_threads(threads)
        saved = time.monotonic()
        Checkpoints(Folder.open(str(scratch)).child("kept")).save(Progress(), loop.family, loop.stepper.optimizers, {})
        checkpoint = time.monotonic() - saved
    whole, read = (_sizes(each.records) for each in (material, part))
    captions = len(collate.captions) * whole[0] / read[0]
    power = 2 if loop.family.pairwise else 1  # these score every image with every caption
    steps = math.ceil(captions / train.batch_size)
    return Timing(
        set_up=set_up,
        step=clock.seconds / clock.captions * captions / steps,
        steps=steps,
        validation=validation * (whole[1] / read[1]) ** power,
        checkpoint=checkpoint,
    )


def _loop(
    config: RunConfig, material: Material, scratch: Path, seconds: float
) -> tuple[TrainingInputs, Collator, Loop, _Clock]:
    inputs, clock = family_inputs(config), _Clock(seconds)
    objective = registry.build("objective", config.objective)
    data = training_inputs(config, material, inputs)
    family = build_family(config, data).to(training_device(config.train))
    collate = make_collator(config, data, inputs, objective.negatives)
    hooks = Hooks(lambda family: {}, lambda epoch, row: None, lambda text: None, clock.stepped)
    unsaved = _Unsaved(Folder.open(str(scratch)).child("none"))
    return data, collate, Loop(config, family, objective, collate, unsaved, hooks), clock


def _part_of(material: Material, scratch: Path) -> Material:
    """The first images of training and validation with their captions, features cached in `scratch`."""
    assert isinstance(material.features, StoredFeatures)
    left = {"train": TRAIN_IMAGES, "val": VAL_IMAGES}
    images = []
    for image in material.records.images:
        if left.get(image.split, 0) > 0:
            left[image.split] -= 1
            images.append(image)
    kept = {image.id for image in images}
    captions = tuple(caption for caption in material.records.captions if caption.image in kept)
    records = Records(material.records.name, tuple(images), captions, material.records.source)
    features = dataclasses.replace(material.features, cache=str(scratch))
    return dataclasses.replace(material, records=records, features=features)


def _sizes(records: Records) -> tuple[int, int]:
    """Training and validation captions."""
    return len(records.split("train").captions), len(records.split("val").captions)


ENOUGH = 20  # runs to take the median of; a workspace may have thousands, each of which is two requests to a store
_BATCH = 64  # runs that are asked before these are counted


@dataclass(frozen=True)
class Estimate:
    """Expected seconds of one trial and their source; None, and the reason, if nothing says it."""

    seconds: float | None
    source: str

    def without(self, what: str) -> "Estimate":
        """The same estimate with a note on `what` it leaves out, if it has one."""
        return replace(self, source=f"{self.source}; {what} comes on top") if what and self.seconds else self


def estimate(config: RunConfig, searched: Iterable[str], workspace: Workspace, request: Request) -> Estimate:
    """How long one training of a configuration takes. Writes nothing into the workspace.

    Runs that differ from it only in the `searched` keys, seed and epochs say it by their seconds per epoch. Of a run
    that ended before its last epoch the epochs it made count. Without such a run, some steps are made in this process.
    """
    found = _of_runs(config, set(searched), workspace)
    return found if found is not None else _of_steps(config, workspace, request)


def expectation(found: Estimate) -> str:
    """The log line of a capped sweep on an estimate."""
    if found.seconds is None:
        return "a cap is set and how long a trial takes is unknown: one starts alone to find out"
    return f"a trial is expected to take {found.seconds:.3g} s ({found.source}); none starts that would pass the cap"


def estimate_before_trials(
    config: RunConfig, searched: Iterable[str], workspace: Workspace, request: Request
) -> Estimate:
    """As `estimate`, for a job whose trials are next. It makes no steps on a GPU: a process that has used one keeps
    some of its memory."""
    if not config.train.gpus_per_worker:
        return estimate(config, searched, workspace, request)
    return _of_runs(config, set(searched), workspace) or Estimate(None, "no run like these is in the workspace")


def _of_runs(config: RunConfig, searched: set[str], workspace: Workspace) -> Estimate | None:
    wanted, each = _essence(to_dict(config), searched), list[float]()
    runs = workspace.root.child("runs")

    def whole(name: str) -> float | None:
        """Seconds of such a training by this run; None if the run is unlike it or has not finished."""
        try:
            told = runs.child(name).read_json("config.json")
            if _essence(told, searched) != wanted:
                return None
            result = runs.child(name).read_json("result.json")
        except (InputError, FileNotFoundError, NotADirectoryError):
            return None
        if not (made := result.get("epochs")):
            return None
        ended_early = made < told["train"]["epochs"]
        epochs = min(made, config.train.epochs) if ended_early else config.train.epochs
        return result["seconds"] / made * epochs

    names = runs.names()
    for start in range(0, len(names), _BATCH):
        each += filter(None, read_each(runs, whole, names[start : start + _BATCH]))
        if len(each) >= ENOUGH:
            break
    if not each:
        return None
    each.sort()
    return Estimate(each[len(each) // 2], f"median epoch of {len(each)} runs like these")


def _of_steps(config: RunConfig, workspace: Workspace, request: Request) -> Estimate:
    if config.train.gpus_per_worker and not gpus():
        return Estimate(None, "no run like these is in the workspace, and there is no GPU here to time a step on")
    try:
        material = pipeline.prepare(config, Workspace(SealedFolder(workspace.root.uri)))
    except NotMadeError as error:
        return Estimate(None, _lacking(str(error), config, workspace, request))
    timing = time_training(config, material)
    if timing is None:
        return Estimate(None, "no run like these is in the workspace, and a fit in closed form has no step to time")
    source = f"timed here: {1000 * timing.step:.0f} ms per step, {timing.steps} steps per epoch"
    if config.train.workers > 1:
        source += f", shared by {config.train.workers} workers; their start comes on top"
    return Estimate(timing.seconds(config.train), source)


def _lacking(folder: str, config: RunConfig, workspace: Workspace, request: Request) -> str:
    from vse.report.build import command_of

    kind = folder.removeprefix(workspace.root.uri.partition("?")[0]).lstrip("/").split("/")[0]
    if kind == "language":  # parses, word and sentence vectors, adversaries: a short run makes all it reads
        what, command = "what it reads of the captions is", command_of(request, "train", "train.epochs=1")
    else:
        outputs = f"outputs={family_inputs(config).image}"
        what, command = "features are", command_of(request, "extract_features", outputs)
    return f"no run like these is in the workspace, and {what} not there to time a step on; {command} makes that"


def _essence(config: dict[str, Any], searched: set[str]) -> dict[str, Any]:
    left = {"seed", "train.epochs", *searched}

    def leaves(data: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
        for key, value in data.items():
            if isinstance(value, dict):
                yield from leaves(value, f"{prefix}{key}.")
            else:
                yield f"{prefix}{key}", value

    return {key: value for key, value in leaves(config) if key not in left}
