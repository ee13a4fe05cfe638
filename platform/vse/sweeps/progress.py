"""The progress of a running sweep: epochs between the ends of trials, a file for `jobs/status.py`, and metrics."""

import contextlib
import time
from dataclasses import asdict, dataclass, field

from vse.display.progress import Parts, Progress
from vse.errors import InputError
from vse.storage.folder import Folder
from vse.sweeps.ledger import Ledger
from vse.tracking.prometheus import show_trials

FILE_NAME = "progress.json"
EVERY = 2.0  # seconds between two writes of the file
PAUSES = 50  # the pause after a write, in times of the write: Tune's loop waits while a remote store is written to


@dataclass(frozen=True, slots=True)
class Epochs:
    """Epochs of one trial: done, in all, and how many of those done earlier processes trained."""

    done: int
    total: int
    earlier: int = 0


@dataclass
class EpochCounter:
    """Adds up the epochs of trials that run and of trials that have ended since this call began."""

    _running: dict[str, Epochs] = field(default_factory=dict)
    _trained: int = 0  # epochs of trials that have ended
    _earlier: float = 0.0  # share of the ended trials that earlier processes trained

    def reported(self, trial: str, epochs: Epochs) -> None:
        """Count the epochs of a running trial."""
        self._running[trial] = epochs

    def ended(self, trial: str, *, retried: bool = False) -> None:
        """Count the end of a trial. If it is retried, its next attempt reports the epochs of this one as earlier."""
        epochs = self._running.pop(trial, None)
        if epochs is not None:
            self._trained += epochs.done - epochs.earlier
            self._earlier += 0.0 if retried else epochs.earlier / epochs.total

    @property
    def parts(self) -> Parts:
        """The epochs as parts of trials."""
        running = self._running.values()
        return Parts(
            share=sum(min(1.0, each.done / each.total) for each in running),
            earlier=self._earlier + sum(each.earlier / each.total for each in running),
            count=self._trained + sum(each.done - each.earlier for each in running),
            unit="epochs",
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepProgress:
    """The content of the file. Times are in seconds since 1970.

    Args:
        label: Kind of the trials.
        total: Trials of this call; None if that is unknown.
        done: Trials that have ended.
        running: Trials that run.
        failed: Trials that failed and are not retried.
        share: Share of all that is done, epochs of running trials included, between 0 and 1.
        rate: The rate in the job's progress line.
        left: Seconds to the end by the job's estimate; None without one.
        text: The last report of a trial.
        started: When these trials began.
        time: When this was written.
    """

    label: str
    total: int | None
    done: int
    running: int
    failed: int
    share: float | None
    rate: str
    left: float | None
    text: str
    started: float
    time: float


class ProgressFile:
    """Writes the progress of a sweep into its folder: every two seconds at most, and at the end.

    If it cannot be written, it is left out.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._started = time.time()
        self._next = 0.0

    def show(self, bar: Progress, running: int, failed: int) -> None:
        """Publish the state of the progress line: metrics at every call, the file every two seconds at most.

        The file is also written when all trials have ended.

        Args:
            bar: The progress line of the trials.
            running: Trials that run.
            failed: Trials that failed and are not retried.
        """
        waiting = max(0, bar.total - bar.done - running) if bar.total else 0
        show_trials(self.ledger.folder.name, self._states(waiting, running, failed))
        begun = time.monotonic()
        if begun >= self._next or bar.done == bar.total:
            record = SweepProgress(
                label=bar.label,
                total=bar.total,
                done=bar.done,
                running=running,
                failed=failed,
                share=bar.share,
                rate=bar.rate(),
                left=bar.left(),
                text=bar.text,
                started=self._started,
                time=time.time(),
            )
            with contextlib.suppress(OSError, InputError):
                self.ledger.folder.write_checked(FILE_NAME, asdict(record))
            self._next = begun + max(EVERY, PAUSES * (time.monotonic() - begun))

    def show_end(self, failed: int) -> None:
        """Publish that no trial waits or runs, also if a cap or the end of a search left trials out.

        The alert `JobEnded` fires for a job that leaves Ray while its last metrics show waiting or running trials.

        Args:
            failed: Trials that failed and are not retried.
        """
        show_trials(self.ledger.folder.name, self._states(0, 0, failed), last=True)

    def _states(self, waiting: int, running: int, failed: int) -> dict[str, int]:
        finished = self.ledger.states["finished"]
        return {"waiting": waiting, "running": running, "finished": finished, "failed": failed}


def read_sweep_progress(folder: Folder) -> SweepProgress | None:
    """The last record; None if there is none or it is damaged."""
    try:
        return SweepProgress(**folder.read_json(FILE_NAME))
    except (FileNotFoundError, NotADirectoryError, InputError, TypeError):
        return None
