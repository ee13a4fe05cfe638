"""Asynchronous successive halving: Tune's scheduler, with its rungs rebuilt from the ledger."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ray.tune.schedulers import ASHAScheduler

from vse.sweeps.ledger import Entry, trial_id
from vse.sweeps.trial_process import EPOCH, OBJECTIVE


@dataclass(frozen=True, slots=True)
class _TrialStub:
    """The part of a trial that Tune's scheduler reads."""

    trial_id: str


class _Halving(ASHAScheduler):
    """Identifies a trial by its changes.

    Tune numbers attempts. A trial that is retried, for example after its node was lost, would be at every rung once for
    each attempt, and a good one would end all others.
    """

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        super().on_trial_add(tune_controller, _stub(trial))

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        return super().on_trial_result(tune_controller, _stub(trial), result)

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        super().on_trial_complete(tune_controller, _stub(trial), result)

    def on_trial_remove(self, tune_controller: Any, trial: Any) -> None:
        super().on_trial_remove(tune_controller, _stub(trial))


def _stub(trial: Any) -> Any:
    return trial if isinstance(trial, _TrialStub) else _TrialStub(trial_id(trial.config["changes"]))


def halving(epochs: int, grace: int, factor: float, entries: Iterable[Entry]) -> ASHAScheduler:
    """A scheduler for asynchronous successive halving (Li et al., MLSys 2020): trials that are behind at a rung end.

    Tune's scheduler keeps its rungs in memory. They are rebuilt from the curves in the ledger.

    Args:
        epochs: Of a whole trial.
        grace: Epochs to the first rung.
        factor: Rungs are at grace, grace * factor, ... epochs; one trial in this many continues from a rung.
        entries: Of the ledger.
    """
    scheduler = _Halving(
        time_attr=EPOCH, metric=OBJECTIVE, mode="max", max_t=epochs, grace_period=grace, reduction_factor=factor
    )
    controller: Any = None  # nothing runs yet
    for entry in entries:
        curve = entry.result.get("curve")
        if entry.state == "finished" and curve:
            trial: Any = _TrialStub(entry.id)
            scheduler.on_trial_add(controller, trial)
            for epoch, value in enumerate(curve if entry.stopped else curve[:-1], start=1):
                scheduler.on_trial_result(controller, trial, {EPOCH: epoch, OBJECTIVE: value})
    return scheduler
