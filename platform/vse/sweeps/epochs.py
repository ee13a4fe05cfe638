"""Epochs of a sweep's trials, counted as they end: what its progress is between the ends of trials."""

from dataclasses import dataclass, field

from vse.display.progress import Parts


@dataclass(frozen=True, slots=True)
class Epochs:
    """Of one trial: epochs done, how many it asks for, and how many of those done earlier processes made."""

    done: int
    total: int
    earlier: int = 0


@dataclass
class EpochCounter:
    """Adds up the epochs of trials that run and of those that have ended since this call began."""

    _running: dict[str, Epochs] = field(default_factory=dict)
    _made: int = 0  # epochs of trials that have ended
    _earlier: float = 0.0  # share of the trials that have ended which was there before

    def reported(self, trial: str, epochs: Epochs) -> None:
        """A running trial has come so far."""
        self._running[trial] = epochs

    def ended(self, trial: str, *, retried: bool = False) -> None:
        """A trial has ended. If it is `retried`, its next attempt reports what this one has left for it."""
        epochs = self._running.pop(trial, None)
        if epochs is not None:
            self._made += epochs.done - epochs.earlier
            self._earlier += 0.0 if retried else epochs.earlier / epochs.total

    @property
    def parts(self) -> Parts:
        """The epochs as parts of trials."""
        running = self._running.values()
        return Parts(
            share=sum(min(1.0, each.done / each.total) for each in running),
            earlier=self._earlier + sum(each.earlier / each.total for each in running),
            count=self._made + sum(each.done - each.earlier for each in running),
            unit="epochs",
        )
