"""The trials of a proposer as Tune asks for them, one at a time."""

from collections.abc import Callable, Sequence
from typing import Any

from ray.tune.search import Searcher

from vse.sweeps import ledger
from vse.sweeps.budget import Meter
from vse.sweeps.proposals import Proposer
from vse.sweeps.sick_nodes import SickNodes

AVOIDED = "avoided"  # key of a trial's configuration: ids of nodes that must not run it


class HandOut(Searcher):
    """Gives a proposer's trials to Tune while the meter allows it and nothing is `broken`.

    Nothing new starts afterwards. What runs ends, and may end sooner than the meter expects: only then is a trial that
    the meter refused held back for good.

    Trials avoid nodes that are `sick`, for their life. None starts while there is no node `elsewhere`, given the ids of
    the sick ones.
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
        self.held_back: dict[str, Any] | None = None  # proposed, and could not start yet

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
