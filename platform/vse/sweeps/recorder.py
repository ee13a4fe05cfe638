"""A callback of Tune that records the ends of trials in the ledger, in the driver."""

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune.experiment import Trial

from vse.cluster import ray_private
from vse.cluster.memory_shortage import LOWER, memory_shortage
from vse.display.progress import Progress
from vse.errors import InputError, PlacementError, StorageError
from vse.sweeps.budget import Meter, Resources
from vse.sweeps.ledger import Entry, FailureKind, Ledger, trial_id
from vse.sweeps.nodes import SickNodes, Waiting
from vse.sweeps.progress import EpochCounter, Epochs, Standing
from vse.sweeps.proposals import AVOIDED, Proposer
from vse.sweeps.trial_process import EPOCHS, PAYLOAD, PEAK, SAID, SO_FAR, WAITED
from vse.workspace.redaction import redact_text

Listener = Callable[[Entry], None]

LOOK = 1.0  # seconds between looks at the clock for the progress line
KEEP = 30.0  # seconds between notes of what has been spent on trials that run
_REFUSALS = (InputError, StorageError, PlacementError)
_Refusal = InputError | StorageError | PlacementError


class Recorder(tune.Callback):
    """Records the end of every trial, and decides whether it is retried and whether the sweep goes on."""

    def __init__(
        self,
        ledger: Ledger,
        bar: Progress,
        proposer: Proposer,
        meter: Meter,
        waiting: Waiting,
        sick: SickNodes,
        need: Resources,
        on_end: Listener | None = None,
        on_silent_failure: Callable[[str], object] = lambda trial: None,
    ) -> None:
        self.ledger, self.bar, self.proposer, self.meter, self.on_end = ledger, bar, proposer, meter, on_end
        self.waiting, self.sick, self.need = waiting, sick, need
        self.on_silent_failure = (
            on_silent_failure  # called with Tune's id of a trial that Tune dropped without a callback
        )
        self._failed: set[str] = set()  # Tune's ids of trials whose failure is recorded
        self.running: dict[str, dict[str, Any]] = {}  # by trial: its changes, once its process runs
        self._worked: dict[str, float] = {}  # by running trial: seconds after which it last reported an epoch
        self._waited: dict[str, float] = {}  # by running trial: seconds in which its workers had no resources
        self._peak: dict[str, float] = {}  # by running trial: GiB of its process at its last report
        self.epochs, self._began = EpochCounter(), False
        self._kept = self._looked = time.monotonic()
        self.refused: _Refusal | None = None
        self.broken = False  # no results can be written or no trial can run: nothing new starts
        self.standing = Standing(ledger)

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune saves its callbacks to resume from; the ledger does that here

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        name = trial_id(trial.config["changes"])
        if result.get(PEAK):
            self._peak[name] = float(result[PEAK])
        if result.get(WAITED):
            self._waited[name] = float(result[WAITED])
        if result.get(EPOCHS):
            epochs = Epochs(*result[EPOCHS])
            self.epochs.reported(name, epochs)
            if epochs.done > epochs.earlier:  # epochs of earlier attempts are reported before workers have resources
                self.waiting.moved()
                self._worked[name] = self.meter.elapsed(name)
                self.meter.progressed(name, (epochs.done - epochs.earlier) / epochs.total)
        if result.get(SAID):
            self._show(text=str(result[SAID]))

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        changes = trial.config["changes"]
        if not self._began:
            self._began = True
            self.bar.restart_clock()
        self.running[trial_id(changes)] = changes
        self.meter.started(trial_id(changes))
        self._show()

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        if time.monotonic() - self._kept >= KEEP:
            self.keep_running()
        if time.monotonic() - self._looked >= LOOK:
            self._show()
        for trial in trials:
            if trial.status == Trial.ERROR and trial.trial_id not in self._failed:
                self._never_began(trial)
        self.waiting.look((trial.status for trial in trials), _avoided(trials))

    def keep_running(self) -> None:
        """Write down what the trials that run now have spent."""
        spent = [(changes, self._seconds(changes)) for changes in self.running.values()]
        self.ledger.keep_running([(changes, seconds, self._had(changes, seconds)) for changes, seconds in spent])
        self._kept = time.monotonic()  # a store that is away takes long

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        changes, last = trial.config["changes"], trial.last_result or {}
        payload = json.loads(last.get(PAYLOAD) or "{}")
        if "result" in payload:
            self.waiting.moved()
            self.sick.well(payload["node"])
            self._finish(changes, payload["result"], payload["seconds"])
        elif "diverged" in payload:
            self.waiting.moved()
            self._fail(changes, payload["diverged"], FailureKind.DIVERGED)
        elif "taken_over" in payload:
            self._fail(changes, payload["taken_over"], FailureKind.TAKEN_OVER)
        elif SO_FAR in last:  # the scheduler ended it
            self._finish(changes, {**json.loads(last[SO_FAR]), "stopped": True}, self._seconds(changes))
        else:
            self._not_served(changes, payload)

    def _not_served(self, changes: dict[str, Any], payload: Mapping[str, Any]) -> None:
        """Record an end by a cause that would end other trials too, unless its node is at fault or the cause is
        over."""
        why, kind = payload.get("refused") or "a trial ended without a result", payload.get("kind", "")
        held = None
        if kind == PlacementError.__name__:
            mine = trial_id(changes)
            if mine not in self._worked:  # otherwise its workers were lost and wait to be replaced
                held = self.need.waiting
            waited = self._seconds(changes) - self._worked.get(mine, 0.0)
            others = {each: self.meter.elapsed(each) for each in self.running if each != mine}
            if not self.waiting.stands(mine, waited, others):  # others have the resources it waited for
                self._fail(changes, why, FailureKind.NO_RESOURCES, held)
                return
        verdict = None
        if payload.get("sick"):
            verdict = self.sick.ill("" if self.need.nested else payload["node"], payload["host"], kind, why)
        if verdict == "here":
            self._fail(changes, f"{payload['host']}: {why}", FailureKind.NODE_FAULT)
            return
        self._refuse(next((each for each in _REFUSALS if each.__name__ == kind), InputError)(why))
        self.broken = self.broken or verdict is not None  # every node is at fault, or the only node
        self._fail(changes, why, FailureKind.REFUSED, held)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        changes = trial.config["changes"]
        self._failed.add(trial.trial_id)
        why, kind = _why(trial, self._peak.get(trial_id(changes), 0.0))
        self._fail(changes, why, kind)

    def _never_began(self, trial: Any) -> None:
        """Record a trial that Tune dropped without a callback, as it does if an actor is not free for its next trial in
        time. What counts the running trials would wait for it forever."""
        changes = trial.config["changes"]
        self._failed.add(trial.trial_id)
        self.on_silent_failure(trial.trial_id)
        self._fail(changes, _why(trial)[0], FailureKind.NOT_STARTED)

    def conclude(self) -> None:
        """Raise the error that refused trials and would refuse them again."""
        if self.refused is not None:
            raise self.refused

    def _refuse(self, error: _Refusal) -> None:
        self.refused = self.refused if self.broken else error  # the first is the cause
        self.broken = self.broken or not isinstance(error, InputError)

    def _seconds(self, changes: Mapping[str, Any]) -> float:
        return self.meter.elapsed(trial_id(changes))

    def _had(self, changes: Mapping[str, Any], seconds: float) -> Resources:
        """What a running trial had in so many seconds: less than it needs until its workers had their resources."""
        return self.need.after(self._waited.get(trial_id(changes), 0.0), seconds)

    def _finish(self, changes: Mapping[str, Any], result: Mapping[str, Any], seconds: float) -> None:
        had = self._had(changes, seconds)
        self._ended(changes, lambda: self.ledger.finish(changes, result, seconds, had), had)

    def _fail(self, changes: Mapping[str, Any], why: str, kind: FailureKind, held: Resources | None = None) -> None:
        """held: the resources it had while it ran, if it never got all that it needs."""
        seconds = self._seconds(changes)
        had = held or self._had(changes, seconds)
        self._ended(
            changes, lambda: self.ledger.fail(changes, why, seconds, had, kind), had, kind == FailureKind.REFUSED
        )

    def _ended(
        self, changes: Mapping[str, Any], record: Callable[[], Entry], had: Resources, refused: bool = False
    ) -> None:
        before = self.ledger.spent(changes)
        self.running.pop(trial_id(changes), None)
        self._worked.pop(trial_id(changes), None)
        self._waited.pop(trial_id(changes), None)
        self._peak.pop(trial_id(changes), None)
        try:
            entry = record()
        except (StorageError, InputError) as error:  # raised here, Tune would print pages
            self._refuse(error)
            self.broken = True
            return
        self.meter.ended(entry.id, entry.spent - before, had, entry.length if entry.complete else None)
        retried = self.proposer.ended(entry, final=refused)
        self.epochs.ended(entry.id, retried=retried)
        self._show(0 if retried else 1, f"last {entry.id}")
        if self.on_end is not None:
            self.on_end(entry)

    def _show(self, ended: int = 0, text: str = "") -> None:
        """Update the progress line and the standing; `ended` more trials have ended."""
        self._looked = time.monotonic()
        self.bar.parts = self.epochs.parts
        self.bar.advance(ended, text)
        self.standing.show(self.bar, self.meter.running)


def _avoided(trials: Iterable[Any]) -> set[str]:
    """The nodes that all waiting trials avoid; a trial avoids the same ones for its life."""
    kept_from = [set(trial.config.get(AVOIDED, ())) for trial in trials if trial.status == Trial.PENDING]
    return set.intersection(*kept_from) if kept_from else set()


def _why(trial: Any, peak: float = 0.0) -> tuple[str, FailureKind]:
    """The end of the traceback of a failed trial, as Tune left it in this process's scratch folder, or one line if the
    trial ran out of memory. `peak`: GiB that its process had taken by its last report."""
    try:
        # a traceback may quote bytes of any encoding, and only people read it
        text = Path(trial.error_file or "").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = "the process of the trial died"
    if line := memory_shortage(text, peak):
        return redact_text(f"{line}; {LOWER}"), FailureKind.ERROR
    text = redact_text(re.sub(r"\x1b\[[0-9;]*m", "", text)).strip()[-4000:]
    return text, FailureKind.NODE_LOST if ray_private.says_node_lost(text) else FailureKind.ERROR
