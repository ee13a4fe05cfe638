"""What trials cost, and a cap that lets the running ones end and starts no new one."""

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from vse.sweeps.ledger import Entry


def cost(entry: Entry) -> float:
    """Seconds a trial took: of this process, or of its training over all restarts if that is more."""
    trained = entry.result.get("seconds", 0.0) if entry.result.get("trained") else 0.0
    return max(entry.seconds, float(trained))


def typical(entries: Iterable[Entry]) -> float | None:
    """Median seconds of finished trials that trained to their end; None where there is none."""
    seconds = [cost(e) for e in entries if e.state == "finished" and not e.result.get("stopped") and cost(e) > 0]
    return statistics.median(seconds) if seconds else None


@dataclass
class Meter:
    """Counts what a sweep has spent. `limit` is in seconds of trials, infinite by default; `spent` begins with what the
    ledger knows, failed trials included.

    A trial starts only if what was spent, what the running ones are expected to take and its own expected time fit: the
    cap is exceeded by no more than trials take longer than expected (the median of those before).
    """

    limit: float = float("inf")
    spent: float = 0.0
    expected: float | None = None
    clock: Callable[[], float] = time.monotonic
    _running: dict[str, float] = field(default_factory=dict)
    _known: list[float] = field(default_factory=list)

    def allows(self) -> bool:
        """Whether one more trial may start."""
        each = self.expected or 0.0
        running = sum(max(self.clock() - start, each) for start in self._running.values())
        total = self.spent + running + each
        return total <= self.limit if each else total < self.limit

    @property
    def running(self) -> int:
        """Trials that have started and not ended."""
        return len(self._running)

    def started(self, trial: str) -> None:
        """A trial starts now."""
        self._running[trial] = self.clock()

    def elapsed(self, trial: str) -> float:
        """Seconds since a running trial started."""
        return self.clock() - self._running.get(trial, self.clock())

    def ended(self, entry: Entry) -> None:
        """A trial has ended, well or badly."""
        self._running.pop(entry.id, None)
        self.spent += cost(entry)
        if entry.state == "finished":
            self._known.append(cost(entry))
            self.expected = (
                statistics.median(self._known) if len(self._known) > 2 or not self.expected else self.expected
            )
