"""What a run will take, from some of its own steps: they are made in this process and leave nothing behind."""

import contextlib
import dataclasses
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from vse import registry
from vse.config import override
from vse.data.records import Records
from vse.features.stored import StoredFeatures
from vse.stages.train_worker import build_family, training_device, validate
from vse.storage.folder import Folder
from vse.storage.scratch import scratch_folder
from vse.training.allocator import keep_freed_memory
from vse.training.batches import Collator
from vse.training.checkpoint import Checkpoints, Progress
from vse.training.compatibility import family_inputs
from vse.training.config import RunConfig, TrainConfig
from vse.training.inputs import Material, TrainingInputs, make_collator, training_inputs
from vse.training.loop import Hooks, Loop

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
