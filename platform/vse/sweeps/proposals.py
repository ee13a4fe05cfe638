"""The next trial of a sweep: from a list, or from a search that learns from ended trials (`methods`), given to Tune."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from ray.tune.search import Searcher

from vse.sweeps import ledger
from vse.sweeps.budget import Meter
from vse.sweeps.ledger import Entry, FailureKind
from vse.sweeps.nodes import SickNodes

AVOIDED = "avoided"  # key of a trial's configuration: ids of nodes that must not run it
LOSSES = 10  # retries of a trial after failures that it did not cause, such as a lost node


class Proposer(Protocol):
    """Proposes trials. All calls come from one thread of the driver.

    `refused` has the reasons of drawn points that would not train, by label.
    """

    refused: dict[str, str]

    def propose(self) -> dict[str, Any] | None:
        """Changes of the next trial; None if none is left, or if it depends on running ones."""
        ...

    def ended(self, entry: Entry, *, final: bool = False) -> bool:
        """Record the end of a trial; returns whether it will be proposed again. With `final` it never is."""
        ...


class Attempts:
    """Counts how often trials fail. Failures that the trial did not cause are counted separately."""

    def __init__(self, attempts: int = 2) -> None:
        self._most, self._failures, self._losses = attempts, Counter[str](), Counter[str]()

    def left(self, entry: Entry) -> bool:
        """Count a failure of a trial; returns whether it may be retried."""
        kind = entry.failure or FailureKind.ERROR
        if kind == FailureKind.DIVERGED:
            return False
        if kind == FailureKind.NO_RESOURCES:  # it runs when the trials that have its resources have ended
            return True
        ends, most = (self._losses, LOSSES + 1) if kind.is_innocent else (self._failures, self._most)
        ends[entry.id] += 1
        return ends[entry.id] < most


class TrialList:
    """Proposes the given trials in their order. A failed one is retried at the end, up to `attempts` in all."""

    def __init__(self, trials: Iterable[Mapping[str, Any]], attempts: int = 2) -> None:
        self._waiting = deque(dict(changes) for changes in trials)
        self._attempts = Attempts(attempts)
        self.refused: dict[str, str] = {}

    def propose(self) -> dict[str, Any] | None:
        return self._waiting.popleft() if self._waiting else None

    def ended(self, entry: Entry, *, final: bool = False) -> bool:
        if final or entry.state == "finished":
            return False
        retried = self._attempts.left(entry)
        if retried:
            self._waiting.append(entry.changes)
        return retried


class TrialSearcher(Searcher):
    """Tune's searcher: passes a proposer's trials to Tune while the meter allows it and no error stops the sweep.

    A trial that the meter refuses waits until the running ones have ended, since they may end sooner than expected.

    Args:
        proposer: Proposes the next trial.
        meter: What may be spent.
        broken: Whether nothing new may start.
        sick: Nodes at fault. A trial avoids, for its life, the nodes that are left out when it starts.
        elsewhere: Whether trials could run on another node than the given ones; none starts while they cannot.
    """

    def __init__(
        self,
        proposer: Proposer,
        meter: Meter,
        broken: Callable[[], bool] = lambda: False,
        sick: SickNodes | None = None,
        elsewhere: Callable[[Sequence[str]], bool] = lambda left_out: True,
    ) -> None:
        super().__init__()
        self.elsewhere = elsewhere
        self.proposer, self.meter, self.broken, self.sick = proposer, meter, broken, sick
        self.running: set[str] = set()
        self.held_back: dict[str, Any] | None = None  # a proposed trial that could not start yet

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune saves its searcher to resume from; the ledger does that here

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        return True

    def suggest(self, trial_id: str) -> Any:
        if self.broken():
            return Searcher.FINISHED
        if self.meter.waits() or (self.sick is not None and self.sick.rests()):
            return None
        changes = self.proposer.propose() if self.held_back is None else self.held_back
        if changes is None:  # a running trial may fail and be retried, or make room for the next
            return None if self.running else Searcher.FINISHED
        if not self.meter.allows():
            self.held_back = changes
            return None if self.running else Searcher.FINISHED
        avoided = self.sick.left_out() if self.sick is not None else []
        if avoided and not self.elsewhere(avoided):
            self.held_back = changes
            return None
        self.held_back = None
        self.running.add(trial_id)
        self.meter.handed_out(ledger.trial_id(changes))
        return {"changes": changes, **({AVOIDED: avoided} if avoided else {})}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        self.running.discard(trial_id)

    def save(self, checkpoint_path: str) -> None:
        """Nothing: the ledger is the state."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: the ledger is the state."""

    def save_to_dir(self, checkpoint_dir: str, session_str: str = "default") -> None:
        """Nothing: the ledger is the state."""
