"""A callback of Tune, in the driver, that records the ends of trials in the ledger."""

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
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
from vse.sweeps.nodes import ResourceWatch, SickNodes
from vse.sweeps.progress import EpochCounter, Epochs, ProgressFile
from vse.sweeps.proposals import AVOIDED, Proposer
from vse.sweeps.trial_process import EPOCHS, PAYLOAD, PEAK, SAID, SO_FAR, WAITED, GpuFaultError
from vse.workspace.redaction import redact_text

Listener = Callable[[Entry], None]
Refusal = InputError | StorageError | PlacementError

LOOK = 1.0  # seconds between updates of the progress line
KEEP = 30.0  # seconds between notes of the time that running trials have taken
# What ends a sweep, by the kind that a trial states. Without a working GPU, no node can hold a trial.
_REFUSALS = {kind.__name__: kind for kind in (InputError, StorageError, PlacementError)}
_REFUSALS[GpuFaultError.__name__] = PlacementError


@dataclass
class _Running:
    """A trial whose process runs.

    Args:
        changes: Its changes.
        worked: Seconds after which it last reported an epoch of its own; None before the first one.
        waited: Seconds in which its workers had no resources.
        peak: GiB of its process at its last report.
    """

    changes: Mapping[str, Any]
    worked: float | None = None
    waited: float = 0.0
    peak: float = 0.0


class Recorder(tune.Callback):
    """Records the end of every trial, and decides whether it is retried and whether the sweep continues.

    Args:
        ledger: Of the sweep.
        bar: The progress line.
        proposer: Gets the ends of trials.
        meter: Counts their cost.
        waiting: Watches trials that wait for resources.
        sick: Watches nodes whose own faults end trials.
        need: Resources of one trial.
        on_end: Called with every ended trial.
        on_silent_failure: Called with Tune's id of a trial that Tune dropped without a callback.
    """

    def __init__(
        self,
        ledger: Ledger,
        bar: Progress,
        proposer: Proposer,
        meter: Meter,
        waiting: ResourceWatch,
        sick: SickNodes,
        need: Resources,
        on_end: Listener | None = None,
        on_silent_failure: Callable[[str], object] = lambda trial: None,
    ) -> None:
        self.ledger, self.bar, self.proposer, self.meter, self.on_end = ledger, bar, proposer, meter, on_end
        self.waiting, self.sick, self.need, self.on_silent_failure = waiting, sick, need, on_silent_failure
        self.refused: Refusal | None = None
        self.broken = False  # no results can be written or no trial can run: nothing new starts
        self._failed: set[str] = set()  # Tune's ids of trials whose failure is recorded
        self._given_up: set[str] = set()  # trials that failed and are not retried
        self._running: dict[str, _Running] = {}
        self._epochs, self._began, self._file = EpochCounter(), False, ProgressFile(ledger)
        self._kept = self._looked = time.monotonic()
        self._over = 0  # trials at the beginning of Tune's list that have ended

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune saves its callbacks to resume from; the ledger does that here

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        name = trial_id(trial.config["changes"])
        running = self._of(trial.config["changes"])
        running.peak = float(result.get(PEAK) or running.peak)
        running.waited = float(result.get(WAITED) or running.waited)
        if result.get(EPOCHS):
            epochs = Epochs(*result[EPOCHS])
            self._epochs.reported(name, epochs)
            if epochs.done > epochs.earlier:  # epochs of earlier attempts are reported before workers have resources
                self.waiting.moved()
                running.worked = self.meter.elapsed(name)
                self.meter.progressed(name, (epochs.done - epochs.earlier) / epochs.total)
        if result.get(SAID):
            self._show(text=str(result[SAID]))

    def on_trial_start(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        if not self._began:
            self._began = True
            self.bar.restart_clock()
        self._of(trial.config["changes"])
        self.meter.started(trial_id(trial.config["changes"]))
        self._show()

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        if time.monotonic() - self._kept >= KEEP:
            self.keep_running()
        if time.monotonic() - self._looked >= LOOK:
            self._show()
        watched = trials[self._over :]  # Tune's list keeps all trials, and there are several steps to a trial
        for trial in watched:
            if trial.status == Trial.ERROR and trial.trial_id not in self._failed:
                # Tune drops a trial without a callback if an actor is not free for it in time. The wrapper that counts
                # the running trials would wait for it forever.
                self.on_silent_failure(trial.trial_id)
                self._failed.add(trial.trial_id)
                self._fail(trial.config["changes"], _why(trial)[0], FailureKind.NOT_STARTED)
        self.waiting.look((trial.status for trial in watched), _avoided(watched))
        while self._over < len(trials) and trials[self._over].status in (Trial.TERMINATED, Trial.ERROR):
            self._over += 1

    def keep_running(self) -> None:
        """Record the cost so far of running trials in the ledger."""
        spent = [(each.changes, self._seconds(each.changes)) for each in self._running.values()]
        self.ledger.keep_running([(changes, seconds, self._had(changes, seconds)) for changes, seconds in spent])
        self._kept = time.monotonic()  # after the write: a store that does not answer takes long

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
            self._refused(changes, payload)

    def _refused(self, changes: dict[str, Any], payload: Mapping[str, Any]) -> None:
        """Record an end whose cause would end other trials too, unless the cause is one node or is over."""
        reason, kind = payload.get("refused") or "a trial ended without a result", payload.get("kind", "")
        had, running = None, self._of(changes)
        if kind == PlacementError.__name__:
            own_id = trial_id(changes)
            if running.worked is None:  # otherwise its workers were lost and wait to be replaced
                had = self.need.waiting
            waited = self._seconds(changes) - (running.worked or 0.0)
            others = {each: self.meter.elapsed(each) for each in self._running if each != own_id}
            if not self.waiting.stands(own_id, waited, others):  # others have the resources it waited for
                self._fail(changes, reason, FailureKind.NO_RESOURCES, had)
                return
        verdict = None
        if payload.get("sick"):
            verdict = self.sick.ill("" if self.need.nested else payload["node"], payload["host"], kind, reason)
        if verdict == "here":
            self._fail(changes, f"{payload['host']}: {reason}", FailureKind.NODE_FAULT)
            return
        self._refuse(_REFUSALS.get(kind, InputError)(reason))
        self.broken = self.broken or verdict is not None  # every node is at fault, or the only node
        self._fail(changes, reason, FailureKind.REFUSED, had)

    def on_trial_error(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        changes = trial.config["changes"]
        self._failed.add(trial.trial_id)
        payload = json.loads((trial.last_result or {}).get(PAYLOAD) or "{}")
        if payload.get("kind") == GpuFaultError.__name__:
            self._refused(changes, payload)
            return
        reason, kind = _why(trial, self._of(changes).peak)
        self._fail(changes, reason, kind)

    def conclude(self) -> None:
        """Publish the end of the sweep, or raise the error that refused trials and would refuse them again."""
        if self.refused is not None:
            with contextlib.suppress(OSError, InputError):  # the first error is the cause
                self.ledger.retry()
            raise self.refused
        self._file.show_end(len(self._given_up))

    def _refuse(self, error: Refusal) -> None:
        self.refused = self.refused if self.broken else error  # the first is the cause
        self.broken = self.broken or not isinstance(error, InputError)

    def _of(self, changes: Mapping[str, Any]) -> _Running:
        return self._running.setdefault(trial_id(changes), _Running(changes))

    def _seconds(self, changes: Mapping[str, Any]) -> float:
        return self.meter.elapsed(trial_id(changes))

    def _had(self, changes: Mapping[str, Any], seconds: float) -> Resources:
        """The resources that a trial had on average: less than it needs until its workers had theirs."""
        return self.need.after(self._of(changes).waited, seconds)

    def _finish(self, changes: Mapping[str, Any], result: Mapping[str, Any], seconds: float) -> None:
        had = self._had(changes, seconds)
        self._ended(changes, lambda: self.ledger.finish(changes, result, seconds, had), had)

    def _fail(self, changes: Mapping[str, Any], why: str, kind: FailureKind, had: Resources | None = None) -> None:
        """Record a failure. `had`: the resources of the trial, if it never had all that it needs."""
        seconds = self._seconds(changes)
        had = had or self._had(changes, seconds)
        refused = kind == FailureKind.REFUSED
        self._ended(changes, lambda: self.ledger.fail(changes, why, seconds, had, kind), had, refused)

    def _ended(
        self, changes: Mapping[str, Any], record: Callable[[], Entry], had: Resources, refused: bool = False
    ) -> None:
        before = self.ledger.spent(changes)
        self._running.pop(trial_id(changes), None)
        try:
            entry = record()
        except (StorageError, InputError) as error:  # raised in a callback, Tune would print pages
            self._refuse(error)
            self.broken = True
            return
        self.meter.ended(entry.id, entry.spent - before, had, entry.length if entry.complete else None)
        retried = self.proposer.ended(entry, final=refused)
        self._epochs.ended(entry.id, retried=retried)
        if entry.state == "failed" and not retried:
            self._given_up.add(entry.id)
        self._show(0 if retried else 1, f"last {entry.id}")
        if self.on_end is not None:
            self.on_end(entry)

    def _show(self, ended: int = 0, text: str = "") -> None:
        """Update the progress line and its file; `ended` more trials have ended."""
        self._looked = time.monotonic()
        self.bar.parts = self._epochs.parts
        self.bar.advance(ended, text)
        self._file.show(self.bar, self.meter.running, len(self._given_up))


def _avoided(trials: Iterable[Any]) -> set[str]:
    """The nodes that all waiting trials avoid. What a trial avoids never changes."""
    avoided = [set(trial.config.get(AVOIDED, ())) for trial in trials if trial.status == Trial.PENDING]
    return set.intersection(*avoided) if avoided else set()


def _why(trial: Any, peak: float = 0.0) -> tuple[str, FailureKind]:
    """The end of the traceback of a failed trial, or one line if it ran out of memory, and the kind of failure.

    Args:
        trial: Of Tune, which leaves the traceback in this process's scratch folder.
        peak: GiB that the trial's process had used by its last report.
    """
    try:
        # a traceback may quote bytes of any encoding, and only people read it
        text = Path(trial.error_file or "").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = "the process of the trial died"
    if line := memory_shortage(text, peak):
        return redact_text(f"{line}; {LOWER}"), FailureKind.ERROR
    text = redact_text(re.sub(r"\x1b\[[0-9;]*m", "", text)).strip()[-4000:]
    return text, FailureKind.NODE_LOST if ray_private.says_node_lost(text) else FailureKind.ERROR
