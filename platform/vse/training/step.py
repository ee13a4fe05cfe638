"""One optimisation step, the same for every family, on one worker or many: learning rate, optimiser, losses, update."""

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager
from inspect import unwrap
from typing import Any, cast

import torch
from torch import Tensor, nn

from vse.determinism import repeatable
from vse.errors import Diverged
from vse.models.family import Encoded, Family, Phase
from vse.objectives.objective import Objective
from vse.training.collectives import add_up, gather, world
from vse.training.config import HALF, OptimConfig
from vse.training.tuning import Tuner


def learning_rate(config: OptimConfig, epoch: float, epochs: int) -> float:
    """The rate of a step.

    `step`: lr · factor^⌊epoch / every⌋ (VSE++). `halving`: lr for the first `every` epochs, then halved at each further
    one down to `floor` (UniVSE A.3, "decayed by 2 for each next epoch"). `cosine`: half a cosine to zero. `milestones`:
    lr before the first, then lr times the factor that belongs to the last one passed.

    Args:
        config: the rate and its schedule. During `warmup`, the rate grows linearly and the schedule is not applied.
        epoch: epochs that are done, with the part of the current one.
        epochs: of the whole training, for `cosine`.
    """
    if epoch < config.warmup:
        return config.lr * min(1.0, (epoch + 1e-3) / config.warmup)
    whole = math.floor(epoch)
    if config.schedule == "step":
        return config.lr * config.factor ** (whole // config.every)
    if config.schedule == "milestones":
        passed = sum(whole >= milestone for milestone in config.milestones)
        shares = (1.0, *config.factors)
        return config.lr * shares[min(passed, len(shares) - 1)]
    if config.schedule == "halving":
        return max(config.lr * 0.5 ** max(0, whole - config.every + 1), min(config.floor, config.lr))
    if config.schedule == "cosine":
        return config.lr * 0.5 * (1 + math.cos(math.pi * min(1.0, epoch / epochs)))
    assert config.schedule == "constant", config.schedule
    return config.lr


class EagerAdamW(torch.optim.AdamW):
    """torch's AdamW, step for step, without its notes to `torch.compile`.

    These import the compiler when they are first called, with 870 modules, a second of CPU time and 140 MB, in every
    process that trains: a good part of what a short trial of a sweep takes to begin. Nothing here is compiled.
    """

    add_param_group = unwrap(torch.optim.AdamW.add_param_group)
    zero_grad = unwrap(torch.optim.AdamW.zero_grad)
    state_dict = unwrap(torch.optim.AdamW.state_dict)
    load_state_dict = unwrap(torch.optim.AdamW.load_state_dict)
    step = torch.no_grad()(unwrap(torch.optim.AdamW.step))


BOOKKEEPING = ("sample", "image_group", "text_group", "true_images", "paired")


def make_optimizer(phase: Phase, config: OptimConfig, tuner: Tuner | None = None) -> torch.optim.Optimizer:
    """AdamW over a phase's parameters, with weight decay on matrices only. Without decay it is Adam.

    On a GPU it is one kernel: there a step is as long as the host needs to start its kernels.

    Args:
        phase: its parameters, factor on the rate, and betas.
        config: rate and weight decay.
        tuner: of a backbone that is trained in this phase, at its share of the rate; None: the family alone is trained.
    """
    groups = list[dict[str, Any]]()
    for parameters, share in ((phase.parameters, 1.0), (tuner.parameters if tuner else (), tuner.rate if tuner else 1)):
        matrices, others = [p for p in parameters if p.ndim > 1], [p for p in parameters if p.ndim <= 1]
        rate = {"lr": config.lr * phase.rate * share, "share": share}
        groups += [{"params": matrices, "weight_decay": config.weight_decay, **rate}]
        groups += [{"params": others, "weight_decay": 0.0, **rate}]
    fused = any(parameter.device.type == "cuda" for parameter in phase.parameters)
    groups = [group for group in groups if group["params"]]
    return EagerAdamW(groups, lr=config.lr * phase.rate, betas=phase.betas, fused=fused or None)


def bare(model: nn.Module) -> Family:
    """The family itself, out of the wrapper that joins workers."""
    return cast(Family, model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model)


def step_losses(
    model: nn.Module,
    objective: Objective,
    batch: Mapping[str, Tensor],
    epoch: int,
    chosen: frozenset[str] | None = None,
    phase: str = "",
) -> tuple[Tensor, dict[str, Tensor]]:
    """(what to differentiate, named losses of the global batch, detached).

    Parameter gradients of the first, averaged over workers as DDP does, are those of one process with the whole batch:
    losses local to a worker enter times the number of workers, whole ones once (see `collectives`).

    Args:
        model: the family or its DDP wrapper.
        objective: the losses and their weights.
        batch: this worker's part of the batch.
        epoch: of the step, from 0, for weights and losses that change over epochs.
        chosen: names of the losses that count; None: all.
        phase: name of the phase, passed to the family's `forward`.
    """
    family = bare(model)
    encoded = dict(model(batch, phase)) | {name: batch[name] for name in BOOKKEEPING if name in batch}
    if "negatives" in batch and "captions" in encoded:
        encoded["listed"] = _listed_scores(family, batch, encoded)
        encoded["is_listed"] = batch["negatives"] >= 0
    both = objective.batch_negatives or "listed" not in encoded
    if both and family.pairwise and family.pairwise <= encoded.keys():
        encoded["scores"] = family.scores(encoded, gather(encoded, family.pairwise, ragged=family.pairwise))
    gathered = gather(encoded, objective.gathers | set(BOOKKEEPING), ragged=objective.ragged)
    scalars = family.scalars()
    gathered.update({name: encoded.get(name, scalars[name]) for name in objective.scalars})
    losses = objective(encoded, gathered, epoch)
    if chosen is not None:
        losses = {name: loss for name, loss in losses.items() if name in chosen}
    weights = objective.weights(epoch)
    workers = world()[1]
    total = torch.zeros((), device=next(iter(losses.values())).device)
    for name, loss in losses.items():
        descended = loss
        if name in objective.averaged:
            descended = loss / _captions_of(name, objective, gathered)
        elif name in objective.balanced and "paired" in gathered:
            descended = loss * (len(gathered["paired"]) / _captions_of(name, objective, gathered))
        total = total + weights[name] * descended * (workers if name in objective.local else 1)
    logged = {name: loss.detach().clone() for name, loss in losses.items()}
    add_up(logged[name] for name in sorted(objective.local & logged.keys()))
    return total, logged


def _listed_scores(family: Family, batch: Mapping[str, Tensor], encoded: Encoded) -> Tensor:
    """Scores (batch, 1 + negatives) of each caption with its own image and with its negatives, in their order."""
    features = batch["negative_features"]
    shape = features.shape[:2]
    draw = batch["draw"].repeat_interleave(shape[1])
    codes = family.encode_images({family.inputs.image: features.flatten(0, 1), "draw": draw})
    listed = {name: torch.cat([encoded[name][:, None], code.unflatten(0, shape)], 1) for name, code in codes.items()}
    return family.listed_scores(listed, encoded)


def _captions_of(name: str, objective: Objective, gathered: Mapping[str, Tensor]) -> Tensor | int:
    """Captions of the global batch that enter a loss."""
    if name in objective.matching and "paired" in gathered:
        return gathered["paired"].sum().clamp_min(1)
    return max(len(gathered["image_group"]), 1)


class Stepper:
    """Forward, backward, clip and update, phase by phase.

    `model` is the family itself or its DDP wrapper; `family` the bare one. A phase updates its own parameters from its
    own losses; families without an adversary have one phase, families fitted in closed form none. A trained backbone
    belongs to the first phase, which trains the encoders.
    """

    def __init__(
        self,
        family: Family,
        model: nn.Module,
        objective: Objective,
        optim: OptimConfig,
        precision: str,
        tuner: Tuner | None = None,
    ) -> None:
        self.family, self.model, self.objective, self.config, self.tuner = family, model, objective, optim, tuner
        self.phases = family.phases()
        self.optimizers = [
            make_optimizer(phase, optim, self._tuner_of(number)) for number, phase in enumerate(self.phases)
        ]
        assert precision not in HALF or next(family.parameters()).is_cuda, f"{precision} without a GPU"
        self.autocast = cast(torch.dtype, getattr(torch, precision)) if precision in HALF else None
        self.scaler = torch.amp.GradScaler("cuda", enabled=self.autocast is torch.float16)

    def set_rate(self, rate: float) -> None:
        """Learning rate of every phase."""
        for phase, optimizer in zip(self.phases, self.optimizers, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * phase.rate * group["share"]

    def step(self, batch: Mapping[str, Tensor], epoch: int, number: int = 0) -> dict[str, Tensor]:
        """One update of every phase that is due.

        Args:
            batch: this worker's part of the batch.
            epoch: of the step, from 0.
            number: of the step in the run, from 0, which decides what phases are due.

        Returns:
            The named losses of the global batch, and as `gradient` the norm of the gradient before clipping; with
            several phases the first one's.

        Raises:
            Diverged: an update is more than a number can be.
        """
        device = next(self.family.parameters()).device
        logged: dict[str, Tensor] = {}
        for place, (phase, optimizer) in enumerate(zip(self.phases, self.optimizers, strict=True)):
            if number % phase.every != phase.every - 1:
                continue
            tuner = self._tuner_of(place)
            with self._computing():
                shown = batch if self.tuner is None else self.tuner.shown(batch, learns=tuner is not None)
                total, losses = step_losses(self.model, self.objective, shown, epoch, phase.losses, phase.name)
            optimizer.zero_grad(set_to_none=True)
            with repeatable(device):
                self.scaler.scale(total).backward()
            if tuner is not None:
                tuner.backward(self._computing)
            self.scaler.unscale_(optimizer)
            parameters = (*phase.parameters, *(tuner.parameters if tuner else ()))
            norm = nn.utils.clip_grad_norm_(parameters, self.config.clip or torch.inf)
            try:
                self.scaler.step(optimizer)
            except RuntimeError as error:  # the rate and Adam's corrections are no tensors, which would become infinite
                if "without overflow" not in str(error):
                    raise
                raise Diverged("the update overflows") from None
            self.scaler.update()
            logged = losses | {"gradient": norm.detach()} | logged
        return logged

    def _tuner_of(self, phase: int) -> Tuner | None:
        return self.tuner if phase == 0 else None

    def _computing(self) -> AbstractContextManager[object]:
        """The precision of forward passes."""
        device = next(self.family.parameters()).device
        return torch.autocast(device.type, self.autocast or torch.float32, enabled=self.autocast is not None)
