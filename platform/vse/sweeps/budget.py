"""What trials cost, and a cap that lets the running ones end and starts no new one."""

import math
import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from vse.sweeps.ledger import Entry
from vse.sweeps.resources import Resources


def length(entry: Entry) -> float:
    """Seconds of a finished trial from its beginning to its end: of its last attempt, or of its training over all
    restarts if that is longer. `spent` includes other attempts too."""
    trained = entry.result.get("seconds", 0.0) if entry.result.get("trained") else 0.0
    return max(entry.seconds, float(trained))


def typical(entries: Iterable[Entry], need: Resources) -> float | None:
    """Median seconds of finished trials that trained to their end with these resources; None if there is none.

    Workers and shares of GPUs may differ within a sweep, and with them the time of a trial.
    """
    ended = [entry for entry in entries if entry.state == "finished" and not entry.stopped]
    seconds = [length(entry) for entry in ended if need.of_kind(entry.need) and length(entry) > 0]
    return statistics.median(seconds) if seconds else None


@dataclass
class Meter:
    """Counts what a sweep has spent, and decides whether one more trial may start.

    A trial starts only if what was spent, what the running ones are expected to take and its own expected time fit. The
    cap is exceeded only as far as trials take longer than expected (the median of earlier ones). If there is a limit
    and nothing says how long a trial takes, one starts alone, and its first epochs or its end say it. A trial that
    waits for resources counts with its expected time, however long it waits.

    Args:
        limit: Seconds of trials; infinite by default.
        spent: Seconds that the ledger has, failed trials included.
        limit_in_full: The same limit of seconds with all resources of a trial. Seconds in which workers wait for theirs
            count with the share that the trial has then.
        spent_in_full: Seconds spent, counted that way.
        expected: Seconds of one trial, if anything says it.
        clock: Seconds.
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
    _guessed: bool = False  # whether `expected` comes from epochs of a trial that still runs

    def allows(self) -> bool:
        """Whether one more trial may start."""
        left = min(self.limit - self.spent, self.limit_in_full - self.spent_in_full)
        if not self.expected:
            return math.isinf(left) or (not self.open and left > 0)
        each = self.expected
        running = sum(max(self.clock() - start, each) for start in self._running.values())
        return running + each * (len(self._waiting) + 1) <= left

    def waits(self) -> bool:
        """Whether no trial may start now, and running ones will show whether one may."""
        return self.open > 0 and (self._guessed or not self.expected) and not self.allows()

    @property
    def running(self) -> int:
        """Trials that have started and not ended."""
        return len(self._running)

    @property
    def open(self) -> int:
        """Trials that Tune has been given and that have not ended."""
        return len(self._running) + len(self._waiting)

    def handed_out(self, trial: str) -> None:
        """A trial will start as soon as it has resources."""
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
        """A trial has ended. `before`: seconds of its earlier attempts. `share`: the share of its resources that it had
        in this one."""
        self._waiting.discard(entry.id)
        self._running.pop(entry.id, None)
        self.spent += entry.spent - before
        self.spent_in_full += share * (entry.spent - before)
        if entry.state == "finished" and not entry.stopped:
            self._known.append(length(entry))
            if len(self._known) > 2 or self._guessed or not self.expected:
                self.expected, self._guessed = statistics.median(self._known), False
