"""Which trial is next: one of a list, or of a search that learns from what has ended (`search`)."""

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from typing import Any, Protocol, runtime_checkable

from vse.sweeps.failures import FailureKind
from vse.sweeps.ledger import Entry

LOSSES = 10  # ends that say nothing about a trial, after which it is retried; one more counts against it


@runtime_checkable
class Proposer(Protocol):
    """Says what to try. All calls come from the driver's one thread.

    `refused` has drawn points that would not train, by label, and why.
    """

    refused: dict[str, str]

    def propose(self) -> dict[str, Any] | None:
        """Changes of the next trial; None if there is none now: none is left, or running ones decide it."""
        ...

    def ended(self, entry: Entry, *, final: bool = False) -> bool:
        """Takes the end of a trial and returns whether it will be proposed again. `final`: it may not be."""
        ...


class Attempts:
    """How often trials may fail. Ends that say nothing about the trial are counted apart."""

    def __init__(self, attempts: int) -> None:
        self._most, self._failures, self._losses = attempts, Counter[str](), Counter[str]()

    def left(self, entry: Entry) -> bool:
        """Count the end of a failed trial; whether it may be tried again."""
        kind = entry.failure or FailureKind.ERROR
        if kind == FailureKind.DIVERGED:
            return False
        if kind == FailureKind.NO_RESOURCES:  # it runs when the others, which have its resources, have ended
            return True
        ends, most = (self._losses, LOSSES + 1) if kind.is_innocent else (self._failures, self._most)
        ends[entry.id] += 1
        return ends[entry.id] < most


class InTurn:
    """The given trials in their order; a failed one is retried at the end until it has had its attempts."""

    def __init__(self, trials: Iterable[Mapping[str, Any]], attempts: int = 2) -> None:
        self._waiting = deque(dict(changes) for changes in trials)
        self._attempts = Attempts(attempts)
        self.refused: dict[str, str] = {}

    def propose(self) -> dict[str, Any] | None:
        return self._waiting.popleft() if self._waiting else None

    def ended(self, entry: Entry, *, final: bool = False) -> bool:
        if final or entry.state == "finished":
            return False
        again = self._attempts.left(entry)
        if again:
            self._waiting.append(entry.changes)
        return again
