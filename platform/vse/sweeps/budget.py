"""What trials cost, and a cap that lets the running ones end and starts no new one."""

import math
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from vse.sweeps.ledger import Entry
from vse.sweeps.need import Need


def length(entry: Entry) -> float:
    """Seconds a finished trial took from its beginning to its end: of its last attempt, or of its training over all
    restarts if that is more. What its other attempts cost beside this is in `spent`."""
    trained = entry.result.get("seconds", 0.0) if entry.result.get("trained") else 0.0
    return max(entry.seconds, float(trained))


def typical(entries: Iterable[Entry], need: Need) -> float | None:
    """Median seconds of finished trials that trained to their end and had what `need` says, or nobody knows what; None
    where there is none. Workers and shares of GPUs may differ within a sweep, and take another time."""
    ended = [entry for entry in entries if entry.state == "finished" and not entry.stopped]
    seconds = [length(entry) for entry in ended if need.of_kind(entry.need) and length(entry) > 0]
    return statistics.median(seconds) if seconds else None


@dataclass
class Meter:
    """Counts what a sweep has spent. `limit` is in seconds of trials, infinite by default; `spent` begins with what the
    ledger knows, failed trials included. `limit_in_full` and `spent_in_full` are of seconds in which a trial has all
    that it takes: those in which its workers wait for places are that share of one that it has then.

    A trial starts only if what was spent, what the running ones are expected to take and its own expected time fit: the
    cap is exceeded by no more than trials take longer than expected (the median of those before). Where there is a
    limit and nothing says what a trial takes, one starts alone, and its first epochs or its end tell. A trial that is
    handed out and waits for its place counts as what it is expected to take, however long it waits.
    """

    limit: float = float("inf")
    spent: float = 0.0
    limit_in_full: float = float("inf")
    spent_in_full: float = 0.0
    expected: float | None = None
    clock: Callable[[], float] = time.monotonic
    _waiting: set[str] = field(default_factory=set)
    _running: dict[str, float] = field(default_factory=dict)
    _known: list[float] = field(default_factory=list)
    _guessed: bool = False  # whether what is expected was told by epochs of a trial that still runs

    def allows(self) -> bool:
        """Whether one more trial may start."""
        left = min(self.limit - self.spent, self.limit_in_full - self.spent_in_full)
        if not self.expected:
            return math.isinf(left) or (not self.open and left > 0)
        each = self.expected
        running = sum(max(self.clock() - start, each) for start in self._running.values())
        return running + each * (len(self._waiting) + 1) <= left

    def waits(self) -> bool:
        """Whether no trial may start now, but what runs will tell whether one may."""
        return self.open > 0 and (self._guessed or not self.expected) and not self.allows()

    @property
    def running(self) -> int:
        """Trials that have started and not ended."""
        return len(self._running)

    @property
    def open(self) -> int:
        """Trials that were handed out, started or not, and have not ended."""
        return len(self._running) + len(self._waiting)

    def handed_out(self, trial: str) -> None:
        """A trial is to start as soon as it has a place."""
        self._waiting.add(trial)

    def started(self, trial: str) -> None:
        """A trial starts now."""
        self._waiting.discard(trial)
        self._running[trial] = self.clock()

    def told(self, trial: str, share: float) -> None:
        """A running trial has done so much of its work, between 0 and 1, since it started."""
        if not self._known and (self._guessed or not self.expected) and trial in self._running:
            self.expected, self._guessed = self.elapsed(trial) / share, True

    def elapsed(self, trial: str) -> float:
        """Seconds since a running trial started."""
        return self.clock() - self._running.get(trial, self.clock())

    def ended(self, entry: Entry, before: float = 0.0, share: float = 1.0) -> None:
        """A trial has ended, well or badly; `before`: seconds that were spent on it in earlier attempts; `share`: how
        much of what it takes it had in those of this one."""
        self._waiting.discard(entry.id)
        self._running.pop(entry.id, None)
        self.spent += entry.spent - before
        self.spent_in_full += share * (entry.spent - before)
        if entry.state == "finished" and not entry.stopped:
            self._known.append(length(entry))
            if len(self._known) > 2 or self._guessed or not self.expected:
                self.expected, self._guessed = statistics.median(self._known), False
