"""The training loop: epochs, checkpoints, selection. It knows no family by name and no tracker."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist

from vse.data import keyed
from vse.data.batches import Collator, epoch_batches, worker_share
from vse.models.family import Family
from vse.objectives.objective import Objective
from vse.training.checkpoint import Checkpoints, Progress
from vse.training.collectives import world
from vse.training.config import RunConfig
from vse.training.schedule import learning_rate
from vse.training.step import Stepper

Numbers = dict[str, float]


@dataclass(frozen=True)
class Hooks:
    """What the loop tells its caller; only rank 0 calls them.

    validate: numbers of the model on validation data, `val/rsum` among them; epoch_done: (epochs done, numbers of the
    epoch); note: one line worth reading.
    """

    validate: Callable[[Family], Numbers]
    epoch_done: Callable[[int, Numbers], None]
    note: Callable[[str], None]


class Diverged(RuntimeError):  # noqa: N818  (reads as the finding it is)
    """A loss or a gradient is no number any more; the last checkpoint is from before."""


class Loop:
    """Trains one model to the end of its configuration, from wherever its checkpoints stand."""

    def __init__(
        self,
        config: RunConfig,
        family: Family,
        objective: Objective,
        collate: Collator,
        checkpoints: Checkpoints,
        hooks: Hooks,
    ) -> None:
        self.config, self.family, self.objective = config, family, objective
        self.collate, self.checkpoints, self.hooks = collate, checkpoints, hooks
        self.rank, self.workers = world()
        self.device = next(family.parameters()).device
        self.model = self._distributed()
        self.stepper = Stepper(family, self.model, objective, config.optim, config.train.precision)

    def _distributed(self) -> torch.nn.Module:
        if self.workers == 1:
            return self.family
        devices = [self.device] if self.device.type == "cuda" else None
        return torch.nn.parallel.DistributedDataParallel(self.family, device_ids=devices, broadcast_buffers=False)

    def run(self) -> Progress:
        """Train until the last epoch, or until `patience` epochs brought nothing better."""
        progress = self.checkpoints.restore(self.family, self.stepper.optimizers, self.stepper.scaler)
        while progress.epoch < self.config.train.epochs and not self._out_of_patience(progress):
            self._epoch(progress)
        return progress

    def _out_of_patience(self, progress: Progress) -> bool:
        patience, every = self.config.train.patience, self.config.train.evaluate_every
        validated = progress.epoch - progress.epoch % every  # an epoch nobody looked at is no reason to stop
        return bool(patience) and progress.best > 0 and validated - progress.best >= patience

    def _epoch(self, progress: Progress) -> None:
        config, epoch = self.config, progress.epoch
        batches = epoch_batches(len(self.collate.examples), config.train.batch_size, config.seed, epoch)
        start = saved = time.monotonic()
        before = progress.seconds
        self.family.train()
        for step in range(progress.step, len(batches)):
            self._step(progress, batches[step], epoch + step / len(batches), step)
            if config.train.checkpoint_seconds < time.monotonic() - saved and step + 1 < len(batches) and self._alone():
                saved = time.monotonic()
                progress.step, progress.seconds = step + 1, before + saved - start
                self._save(progress)
        progress.epoch, progress.step = epoch + 1, 0
        num = len(self.collate.examples)
        numbers = {f"train/{name}": total / num for name, total in progress.totals.items() if name != "gradient"}
        if "gradient" in progress.totals:
            numbers["train/gradient"] = progress.totals["gradient"] / len(batches)
        numbers["train/rate"] = learning_rate(config.optim, epoch, config.train.epochs)
        self._watch_collapse(numbers, epoch)
        progress.totals = {}
        trained = time.monotonic()
        numbers["train/seconds"] = (
            before + trained - start - (progress.history[-1]["seconds"] if progress.history else 0)
        )
        numbers |= self._validate(progress)
        progress.seconds = before + time.monotonic() - start
        progress.history.append({**numbers, "seconds": progress.seconds})
        self._save(progress)
        if self.rank == 0:
            self.hooks.epoch_done(progress.epoch, numbers)

    def _step(self, progress: Progress, captions: np.ndarray, when: float, step: int) -> None:
        share = worker_share(captions, self.rank, self.workers)
        epoch = int(when)
        # Dropout and the like draw from a stream that belongs to this step, so a resumed run draws what it would have.
        draw = keyed.keys(self.config.seed, epoch, f"dropout {self.rank}", np.array([step]))[0]
        torch.manual_seed(int(draw >> np.uint64(1)))
        self.stepper.set_rate(learning_rate(self.config.optim, when, self.config.train.epochs))
        batch = {name: value.to(self.device, non_blocking=True) for name, value in self.collate(share, epoch).items()}
        for name, value in self.stepper.step(batch, epoch).items():
            number = float(value)
            if not math.isfinite(number):
                if name == "gradient" and self.stepper.scaler.is_enabled():
                    continue  # float16 overflowed: the scaler skips this update and scales less from now on
                raise Diverged(f"epoch {epoch + 1}, step {step + 1}: {name} is {number}; try a lower optim.lr")
            progress.totals[name] = progress.totals.get(name, 0.0) + number

    def _alone(self) -> bool:
        # Several workers would have to agree on the moment; they checkpoint at every epoch only.
        return self.workers == 1

    def _watch_collapse(self, numbers: Numbers, epoch: int) -> None:
        level = self.objective.collapse_level(epoch)
        if level is None or self.rank != 0:
            return
        name, value = level
        numbers["train/collapse"] = numbers[f"train/{name}"] / value
        if numbers["train/collapse"] > 0.98:
            self.hooks.note(
                f"epoch {epoch + 1}: loss per caption {numbers[f'train/{name}']:.4f} is the level of collapsed codes "
                f"({value:g}); try objective.warmup=1 or a lower optim.lr"
            )

    def _validate(self, progress: Progress) -> Numbers:
        """Numbers on validation; updates what is best. Every worker learns rank 0's verdict."""
        due = progress.epoch % self.config.train.evaluate_every == 0 or progress.epoch == self.config.train.epochs
        if not due:
            return {}
        numbers: Numbers = {}
        if self.rank == 0:
            self.family.eval()
            numbers = self.hooks.validate(self.family)
        score = torch.tensor([numbers.get("val/rsum", float("nan"))], dtype=torch.float64, device=self.device)
        if self.workers > 1:
            dist.broadcast(score, 0)
        rsum = float(score)
        better = progress.best_score is None or rsum > progress.best_score
        if self.config.train.select == "last" or better:
            progress.best, progress.best_score = progress.epoch, rsum
        return numbers

    def _save(self, progress: Progress) -> None:
        if self.rank == 0:
            self.checkpoints.save(progress, self.family, self.stepper.optimizers, self.stepper.scaler.state_dict())
        if self.workers > 1:
            dist.barrier()
