"""The training loop: epochs, checkpoints, selection. It is independent of families and of tracking."""

import contextlib
import functools
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from vse.data import keyed
from vse.errors import CredentialsError, Diverged, InputError, StorageError, TakenOver
from vse.models.family import Family
from vse.objectives.objective import Objective
from vse.storage.parallel_reads import prefetched
from vse.training.batches import Batch, Collator, Transfer, epoch_batches, windowed_batches, worker_share
from vse.training.checkpoint import Checkpoints, Progress
from vse.training.code import this_code
from vse.training.collectives import add_up, together, told_by_first, world
from vse.training.config import RunConfig
from vse.training.epoch_report import mines_hardest
from vse.training.step import Stepper, learning_rate
from vse.training.tuning import Tuner

COLLAPSE = "train/collapse"  # an epoch's loss per caption as a share of its level when all codes coincide
_NEAR = 0.02
_BY_CHANCE = 5  # R@10 over R@1: 10 by chance, below 4 for a model that ranks


def collapse(config: RunConfig, numbers: Mapping[str, float], epoch: int) -> str:
    """One line of advice if the numbers of an epoch are those of collapsed codes, else empty.

    A share well above one is no collapse: after a phase with the sum over negatives, distinct codes can score worse
    under the hardest negatives than equal ones. A share of one is no collapse either if validation ranks images well:
    with few or similar data, the hardest negative may win as often as it loses.

    Args:
        config: of the run; the advice names its keys.
        numbers: of the epoch. The share is `train/collapse`; without it there is no advice.
        epoch: number of the epoch, from 1.
    """
    if COLLAPSE not in numbers or abs(numbers[COLLAPSE] - 1) > _NEAR:
        return ""
    if numbers.get("val/t2i/r10", 0.0) < _BY_CHANCE * numbers.get("val/t2i/r1", 0.0):
        return ""
    lower = f"an optim.lr below {config.optim.lr:g}"
    warmup = getattr(config.objective, "warmup", None) if mines_hardest(config) else None
    if warmup is None:
        advice = f"try {lower}"
    elif warmup == 0:
        advice = f"try objective.warmup=1 or {lower}"
    else:
        advice = f"objective.warmup={warmup} did not prevent it; try more of it or {lower}"
    return f"epoch {epoch}: the loss is that of codes that are all alike ({COLLAPSE} {numbers[COLLAPSE]:.3f}); {advice}"


Numbers = dict[str, float]
KNOWN = "paired captions"  # number of captions with their own image, among the numbers of a step
ASK_EVERY = 8  # steps between broadcasts of whether to save, which synchronise the workers


@dataclass(frozen=True)
class Hooks:
    """Callbacks of the loop; only rank 0 calls `epoch_done` and `note`.

    Attributes:
        validate: returns the numbers of the model on validation data, with `val/rsum`. All workers call it together,
            and it fails on all of them or on none.
        epoch_done: called with the number of epochs done and the numbers of the epoch, with `seconds` so far.
        note: called with one line for the log.
        stepped: called with the captions of this worker's step, its seconds, and the part of these it waited for data.
    """

    validate: Callable[[Family], Numbers]
    epoch_done: Callable[[int, Numbers], None]
    note: Callable[[str], None]
    stepped: Callable[[int, float, float], None] | None = None


# Errors that a retry would repeat; the first matching class counts
PERMANENT_ERRORS = (CredentialsError, InputError, TakenOver, StorageError, Diverged)


@dataclass(frozen=True, eq=False)
class PendingNumbers:
    """Named numbers of a step that are being copied to the host. `captions` counts those of the step's global batch."""

    epoch: int
    step: int
    captions: int
    names: tuple[str, ...]
    values: Tensor
    arrived: torch.cuda.Event | None

    @classmethod
    def of(cls, epoch: int, step: int, captions: int, numbers: Mapping[str, Tensor]) -> "PendingNumbers":
        """Start copying numbers to the host without waiting for the copy.

        Args:
            epoch: of the step, from 0.
            step: in its epoch, from 0.
            captions: of the step's global batch.
            numbers: scalars by name, all on one device.
        """
        values, arrived = torch.stack(list(numbers.values())), None
        if values.is_cuda:
            values, arrived = values.to("cpu", non_blocking=True), torch.cuda.Event()
            arrived.record()
        return cls(epoch, step, captions, tuple(numbers), values, arrived)

    def numbers(self) -> dict[str, float]:
        """The numbers; waits until their step is computed."""
        if self.arrived is not None:
            self.arrived.synchronize()
        return dict(zip(self.names, self.values.tolist(), strict=True))


class Loop:
    """Trains one model to the end of its configuration, continuing from its newest checkpoint."""

    def __init__(
        self,
        config: RunConfig,
        family: Family,
        objective: Objective,
        collate: Collator,
        checkpoints: Checkpoints,
        hooks: Hooks,
        tuner: Tuner | None = None,
    ) -> None:
        self.config, self.family, self.objective, self.tuner = config, family, objective, tuner
        self.collate, self.checkpoints, self.hooks = collate, checkpoints, hooks
        self.counted = time.monotonic()  # time up to which `progress` has the seconds of this run
        self.rank, self.workers = world()
        self.device = next(family.parameters()).device
        self.model = self._distributed()
        self.collapsed = False  # whether a collapse was reported
        self.waited = 0.0  # seconds in which a step waited for its batch
        self.transfer = Transfer(self.device, config.train.gpus_per_worker or 1.0)
        self.unread: PendingNumbers | None = None  # numbers of the last step
        self.stepper = Stepper(family, self.model, objective, config.optim, config.train.precision, tuner)
        # windows are for features that exceed memory
        if self.stepper.phases and not config.train.window and tuner is None:
            self.transfer.keep(collate.image, collate.examples.features[collate.image])
        # A family fitted in closed form is done when the loop starts: one epoch of no step validates and saves it.
        self.epochs = config.train.epochs if self.stepper.phases else 1

    def _distributed(self) -> torch.nn.Module:
        if self.workers == 1 or not self.family.phases():
            return self.family
        devices = [self.device] if self.device.type == "cuda" else None
        return torch.nn.parallel.DistributedDataParallel(
            self.family,
            device_ids=devices,
            forward_sync_buffers=False,
            find_unused_parameters=len(self.family.phases()) > 1,  # a phase leaves the others' parameters alone
        )

    def run(self) -> Progress:
        """Train until the last epoch, or until `patience` epochs brought no improvement."""
        progress = self.restored()
        while progress.epoch < self.epochs and not self._out_of_patience(progress):
            if (code := this_code(self.config)) not in progress.trained_by:
                progress.trained_by.append(code)
            self._epoch(progress)
        return progress

    def restored(self) -> Progress:
        """The progress of the newest checkpoint, with its model and optimiser state restored.

        All workers take the checkpoint that worker 0 chooses, so gradients of different models are never averaged.
        """
        chosen = together(lambda: self.checkpoints.chosen() if self.rank == 0 else None, *PERMANENT_ERRORS)
        restore = functools.partial(self.checkpoints.restore, told_by_first(chosen), self.family)
        return together(lambda: restore(self.stepper.optimizers, self.stepper.scaler, self.tuner), *PERMANENT_ERRORS)

    def _mode(self, training: bool) -> None:
        self.family.train(training)
        if self.tuner is not None:
            self.tuner.train(training)

    def _count(self, progress: Progress) -> None:
        """Add the time since the last call, which includes set-up, steps, validation and writing."""
        now = time.monotonic()
        passed, self.counted = now - self.counted, now
        progress.seconds += passed
        progress.cpu_seconds += passed * self.workers * self.config.train.threads
        progress.gpu_seconds += passed * self.workers * self.config.train.gpus_per_worker

    def _out_of_patience(self, progress: Progress) -> bool:
        patience, every = self.config.train.patience, self.config.train.evaluate_every
        validated = progress.epoch - progress.epoch % every  # epochs without validation do not count
        return bool(patience) and progress.best > 0 and validated - progress.best >= patience

    def _epoch(self, progress: Progress) -> None:
        config, epoch = self.config, progress.epoch
        batches, steps_of_window = self._batches(epoch), self._steps_of_window
        start = saved = time.monotonic()
        before = progress.seconds
        self._mode(training=True)
        # Closed here, not by the garbage collector, which would swallow an exception that a signal raises meanwhile.
        with contextlib.closing(prefetched(lambda rows: self._batch(rows, epoch), batches[progress.step :])) as ready:
            for step in range(progress.step, len(batches)):
                begun = time.monotonic()
                batch = next(ready)
                waited = time.monotonic() - begun
                self.waited += waited
                self._step(progress, batch, step, len(batches), len(batches[step]))
                if self.hooks.stepped is not None:
                    self.hooks.stepped(len(batch["sample"]), time.monotonic() - begun, waited)
                if config.train.window and step % steps_of_window == 0:
                    self.collate.examples.release()
                late = config.train.checkpoint_seconds < time.monotonic() - saved
                if step + 1 < len(batches) and self._agreed(late, step + 1):
                    saved = time.monotonic()
                    progress.step = step + 1
                    self._count(progress)
                    self._read(progress)
                    self._save(progress)
        self._read(progress)
        progress.epoch, progress.step = epoch + 1, 0
        num = len(self.collate.captions)
        numbers = {f"train/{name}": total / max(progress.entered[name], 1) for name, total in progress.totals.items()}
        numbers["train/rate"] = learning_rate(config.optim, epoch, config.train.epochs)
        numbers |= self._collapse_share(numbers, epoch)
        progress.totals, progress.entered = {}, {}
        trained = time.monotonic()
        numbers["train/seconds"] = (
            before + trained - start - (progress.history[-1]["seconds"] if progress.history else 0)
        )
        numbers |= self._validate(progress)
        self._watch_collapse(numbers, epoch)
        self._count(progress)
        spent = {"seconds": progress.seconds, "cpu_seconds": progress.cpu_seconds, "gpu_seconds": progress.gpu_seconds}
        progress.history.append({**numbers, **spent, "captions": num})
        self._save(progress)
        if self.rank == 0:
            self.hooks.epoch_done(progress.epoch, progress.history[-1])

    def _batches(self, epoch: int) -> list[np.ndarray]:
        """Captions of each global batch of an epoch; none for a family that makes no step."""
        train, captions = self.config.train, self.collate.captions
        if not self.stepper.phases:
            return []
        if train.window:
            images = self.collate.examples.image[captions]
            rows = windowed_batches(images, train.window, train.batch_size, self.config.seed, epoch)
        else:
            rows = epoch_batches(len(captions), train.batch_size, self.config.seed, epoch)
        return [captions[k] for k in rows]

    def _batch(self, captions: np.ndarray, epoch: int) -> Batch:
        """This worker's share of a batch of captions, prepared on the host."""
        make = self.collate.without_features if self.transfer.kept else self.collate
        batch = make(worker_share(captions, self.rank, self.workers), epoch)
        return self.transfer.pinned(dict(self.family.prepared(batch)))

    @functools.cached_property
    def _steps_of_window(self) -> int:
        """Steps that read about `train.window` images: an image comes with several captions."""
        train, captions = self.config.train, self.collate.captions
        images = len(np.unique(self.collate.examples.image[captions]))
        return max(1, train.window * len(captions) // max(1, images * train.batch_size))

    def _step(self, progress: Progress, host_batch: Batch, step: int, steps: int, captions: int) -> None:
        """One of an epoch's steps on this worker's share of a global batch of so many captions."""
        epoch = progress.epoch
        # Dropout and the like draw from keys that belong to this step, so a resumed run draws what it would have, on
        # any number of workers: the seed is the same on all of them.
        draw = keyed.keys(self.config.seed, epoch, "step", np.array([step]))[0]
        torch.manual_seed(int(draw >> np.uint64(1)))
        self.stepper.set_rate(learning_rate(self.config.optim, epoch + step / steps, self.config.train.epochs))
        batch = self.transfer.sent(host_batch)
        try:
            numbers = self.stepper.step(batch, epoch, epoch * steps + step)
        except Diverged as error:
            raise Diverged(f"epoch {epoch + 1}, step {step + 1}: {error}; try a lower optim.lr") from None
        if "paired" in batch:
            numbers = numbers | {KNOWN: self._num_paired(batch["paired"])}
        latest = PendingNumbers.of(epoch, step, captions, numbers)
        self._read(progress)  # of the step before this one: a GPU has this one to go on with meanwhile
        self.unread = latest

    def _num_paired(self, paired: Tensor) -> Tensor:
        """The number of captions of the global batch with their own image."""
        count = paired.sum()
        add_up([count])
        return count

    def _read(self, progress: Progress) -> None:
        """Add up the numbers of the last step; raises Diverged if one is not finite.

        Call it before saving or reporting the steps so far.
        """
        if self.unread is None:
            return
        read, self.unread = self.unread, None
        numbers = read.numbers()
        num_paired = int(numbers.pop(KNOWN, read.captions))
        for name, number in numbers.items():
            if not math.isfinite(number):
                if name == "gradient" and self.stepper.scaler.is_enabled() and self.stepper.scaler.get_scale() >= 1:
                    continue  # float16 overflowed: the scaler skips this update and scales less from now on
                raise Diverged(
                    f"epoch {read.epoch + 1}, step {read.step + 1}: {name} is {number}; try a lower optim.lr"
                )
            entered = 1 if name == "gradient" else num_paired if name in self.objective.matching else read.captions
            progress.totals[name] = progress.totals.get(name, 0.0) + number
            progress.entered[name] = progress.entered.get(name, 0) + entered

    def _agreed(self, late: bool, done: int) -> bool:
        """Whether to save after `done` steps of the epoch, by the clock of rank 0."""
        if self.workers == 1:
            return late
        if done % ASK_EVERY:
            return False
        decision = torch.tensor([late], dtype=torch.uint8, device=self.device)
        dist.broadcast(decision, 0)
        return bool(decision)

    def _collapse_share(self, numbers: Numbers, epoch: int) -> Numbers:
        """The loss as a share of its level when all codes coincide, where the objective has one."""
        name, value = self.objective.collapse_level(epoch) or ("", 0.0)
        return {COLLAPSE: numbers[f"train/{name}"] / value} if value and f"train/{name}" in numbers else {}

    def _watch_collapse(self, numbers: Numbers, epoch: int) -> None:
        """The first collapsed epoch is worth a note."""
        line = collapse(self.config, numbers, epoch + 1)
        if line and self.rank == 0 and not self.collapsed:
            self.hooks.note(line)
            self.collapsed = True

    def _validate(self, progress: Progress) -> Numbers:
        """Numbers on validation, which workers share; updates the best epoch. Rank 0 decides for every worker."""
        due = progress.epoch % self.config.train.evaluate_every == 0 or progress.epoch == self.epochs
        if not due:
            return {}
        self._mode(training=False)
        numbers = self._validated(progress.epoch)
        score = torch.tensor([numbers.get("val/rsum", float("nan"))], dtype=torch.float64, device=self.device)
        if self.workers > 1:
            dist.broadcast(score, 0)
        rsum = float(score)
        better = progress.best_score is None or rsum > progress.best_score
        if self.config.train.select == "last" or better:
            progress.best, progress.best_score = progress.epoch, rsum
        return numbers

    def _validated(self, epoch: int) -> Numbers:
        try:
            return self.hooks.validate(self.family)
        except Diverged as error:  # the last update did it: every loss up to there was a number
            raise Diverged(f"epoch {epoch}, validation: {error}; try a lower optim.lr") from None

    def _save(self, progress: Progress) -> None:
        def save() -> None:
            if self.rank == 0:
                state = self.stepper.scaler.state_dict()
                self.checkpoints.save(progress, self.family, self.stepper.optimizers, state, self.tuner)

        together(save, *PERMANENT_ERRORS)
