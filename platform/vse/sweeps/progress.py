"""The progress of a running sweep: epochs between the ends of trials, a file for `jobs/status.py`, and metrics."""

import contextlib
import time
from collections import Counter
from dataclasses import asdict, dataclass, field

from vse.display.progress import Parts, Progress
from vse.errors import InputError
from vse.storage.folder import Folder
from vse.sweeps.ledger import Ledger
from vse.tracking.prometheus import show_trials


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


FILE_NAME = "standing.json"
EVERY = 2.0  # seconds between two writings
PAUSES = 50  # times as long as a writing takes: at a store far away it may take a second, in which Tune's loop waits


@dataclass(frozen=True, kw_only=True, slots=True)
class StandingRecord:
    """What the file says. Times are in seconds since 1970.

    Args:
        label: kind of the trials.
        total: how many of them are asked for in this call; None if that is unknown.
        done: how many have ended.
        running: how many run.
        share: how much of all is done, epochs of running trials included, between 0 and 1.
        rate: how fast it goes, as the job's own progress line says it.
        left: seconds to the end by the job's own estimate; None as long as there is none.
        text: what a trial reported last.
        started: when these trials began.
        time: when this was written.
    """

    label: str
    total: int | None
    done: int
    running: int
    share: float | None
    rate: str
    left: float | None
    text: str
    started: float
    time: float


class Standing:
    """Writes where the trials of a sweep stand: every two seconds at most, and at the end.

    What cannot be written is left out.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._started = time.time()
        self._next = 0.0

    def show(self, bar: Progress, running: int) -> None:
        """As the job's progress line has it, with so many trials running."""
        states = Counter(entry.state for entry in self.ledger)
        waiting = max(0, bar.total - bar.done - running) if bar.total else 0
        named = {"waiting": waiting, "running": running, "finished": states["finished"], "failed": states["failed"]}
        show_trials(self.ledger.folder.name, named)
        begun = time.monotonic()
        if begun >= self._next or bar.done == bar.total:
            record = StandingRecord(
                label=bar.label,
                total=bar.total,
                done=bar.done,
                running=running,
                share=bar.share,
                rate=bar.rate(),
                left=bar.left(),
                text=bar.text,
                started=self._started,
                time=time.time(),
            )
            with contextlib.suppress(OSError, InputError):
                self.ledger.folder.write_json(FILE_NAME, asdict(record))
            self._next = begun + max(EVERY, PAUSES * (time.monotonic() - begun))


def read_standing(folder: Folder) -> StandingRecord | None:
    """What was written last; None if nothing was, or if it is damaged."""
    try:
        record = StandingRecord(**folder.read_json(FILE_NAME))
    except (FileNotFoundError, NotADirectoryError, InputError, TypeError):
        return None
    numbers = (record.done, record.running, record.started, record.time)
    maybe = (record.total, record.share, record.left)
    texts = (record.label, record.rate, record.text)
    fits = all(isinstance(each, int | float) for each in numbers) and all(isinstance(each, str) for each in texts)
    return record if fits and all(isinstance(each, int | float | None) for each in maybe) else None
