"""Asynchronous successive halving (Li et al., MLSys 2020): trials that are behind at a rung end there.

Tune's scheduler keeps its rungs in memory. They are rebuilt from the curves in the ledger.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ray.tune.schedulers import ASHAScheduler

from vse.sweeps.ledger import Entry, trial_id
from vse.sweeps.trial_process import EPOCH, OBJECTIVE


@dataclass(frozen=True, slots=True)
class _Told:
    """The part of a trial that the scheduler reads."""

    trial_id: str


class _Halving(ASHAScheduler):
    """Identifies a trial by its changes. Tune numbers attempts: a trial that is retried, as after its node was lost,
    would stand at every rung once per attempt, and a good one would end all others."""

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        super().on_trial_add(tune_controller, _tried(trial))

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        return super().on_trial_result(tune_controller, _tried(trial), result)

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        super().on_trial_complete(tune_controller, _tried(trial), result)

    def on_trial_remove(self, tune_controller: Any, trial: Any) -> None:
        super().on_trial_remove(tune_controller, _tried(trial))


def _tried(trial: Any) -> Any:
    return trial if isinstance(trial, _Told) else _Told(trial_id(trial.config["changes"]))


def halving(epochs: int, grace: int, factor: float, entries: Iterable[Entry]) -> ASHAScheduler:
    """A scheduler with rungs at grace, grace * factor, ... epochs that knows the finished trials of the ledger."""
    scheduler = _Halving(
        time_attr=EPOCH, metric=OBJECTIVE, mode="max", max_t=epochs, grace_period=grace, reduction_factor=factor
    )
    for entry in entries:
        curve = entry.result.get("curve")
        if entry.state == "finished" and curve:
            _tell(scheduler, entry.id, curve if entry.stopped else curve[:-1])
    return scheduler


def _tell(scheduler: ASHAScheduler, name: str, curve: list[float]) -> None:
    trial: Any = _Told(name)
    nobody: Any = None  # no controller: nothing runs
    scheduler.on_trial_add(nobody, trial)
    for epoch, value in enumerate(curve, start=1):
        scheduler.on_trial_result(nobody, trial, {EPOCH: epoch, OBJECTIVE: value})
