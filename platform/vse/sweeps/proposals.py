"""Which trial comes next: a list, or a search that learns from what has ended. Tune asks, one trial at a time."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from ray.tune.search import Searcher

from vse.sweeps import ledger
from vse.sweeps.budget import Meter
from vse.sweeps.ledger import Entry
from vse.sweeps.sick_nodes import SickNodes

AVOIDED = "avoided"  # key of a trial's configuration: ids of the nodes that it is to keep from
LOST = "the node of the trial was lost"  # how the error of such a trial begins
SICK = "the node of the trial was at fault"  # how that of a trial begins that its node ended (`sick_nodes`)
NO_PLACE = "its workers had no place"  # how that of a trial begins whose nodes did not come while others ran
NOT_FREE = "the process it was given did not let go of the trial before"  # how that of a trial begins that never began
TAKEN_OVER = "another job took over what it trained"  # how that of a trial begins that was slow to answer for its run
DIVERGED = "the training diverged"  # how that of a trial begins that would diverge again
LOSSES = 10  # ends by nodes, processes or jobs after which a trial comes again; then it is no longer thought innocent


@runtime_checkable
class Proposer(Protocol):
    """Says what to try. All calls come from the driver's one thread."""

    def propose(self) -> dict[str, Any] | None:
        """Changes of the next trial; None where there is none now, because none is left or running ones decide it."""
        ...

    def ended(self, entry: Entry, *, final: bool = False) -> bool:
        """Hears the end of every trial; returns whether that trial will be proposed again. `final`: it may not be."""
        ...


class Attempts:
    """How often trials may fail. A node that was reclaimed, did not come or is sick says nothing about the trial, nor
    does the process of another or a job that took its run over, so such ends count apart. A training that diverged does
    so each time."""

    def __init__(self, attempts: int) -> None:
        self._most, self._failures, self._losses = attempts, Counter[str](), Counter[str]()

    def left(self, entry: Entry) -> bool:
        """Count the end of a failed trial; whether it may be tried again."""
        if entry.error.startswith(DIVERGED):
            return False
        if entry.error.startswith(NO_PLACE):  # it comes to an end with the others, which have its place
            return True
        lost = entry.error.startswith((LOST, SICK, NOT_FREE, TAKEN_OVER))
        ends, most = (self._losses, LOSSES + 1) if lost else (self._failures, self._most)
        ends[entry.id] += 1
        return ends[entry.id] < most


class InTurn:
    """The given trials in their order; one that failed comes again at the end until it has had its attempts."""

    def __init__(self, trials: Iterable[Mapping[str, Any]], attempts: int = 2) -> None:
        self._waiting = deque(dict(changes) for changes in trials)
        self._attempts = Attempts(attempts)

    def propose(self) -> dict[str, Any] | None:
        return self._waiting.popleft() if self._waiting else None

    def ended(self, entry: Entry, *, final: bool = False) -> bool:
        if final or entry.state == "finished":
            return False
        again = self._attempts.left(entry)
        if again:
            self._waiting.append(entry.changes)
        return again


class HandOut(Searcher):
    """Hands a proposer's trials to Tune while the meter allows it and nothing is `broken`. Nothing new starts
    afterwards; what runs ends, and may end sooner than the meter expects: only then is a trial that it refused held
    back for good. Trials are kept from nodes that are `sick`; none starts while there is no place `elsewhere` than on
    those, by their ids: it would keep from all nodes for its life."""

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
        self.held_back: dict[str, Any] | None = None  # what was proposed and could not start yet

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune saves its searcher for a resumption that is the ledger's here

    def set_search_properties(self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any) -> bool:
        return True

    def suggest(self, trial_id: str) -> Any:
        if self.broken():
            return Searcher.FINISHED
        if self.meter.waits() or (self.sick is not None and self.sick.rests()):
            return None
        changes = self.proposer.propose() if self.held_back is None else self.held_back
        if changes is None:  # a running trial may fail and come again, or make room for the next
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
