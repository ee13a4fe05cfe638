"""The resources of a trial, the cost of trials, and the caps of a sweep."""

import bisect
import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from vse.cluster.capacity import Capacity
from vse.config import knob
from vse.errors import InputError

Cost = tuple[float, "Resources"]
"""Seconds of a trial, and the resources that it had on average."""

DRIVER_CPUS = 0.1  # of a trial's own process that waits for its workers
_LOWER = "lower train.workers, train.threads or train.gpus_per_worker"


@dataclass(frozen=True, kw_only=True, slots=True)
class Resources:
    """CPUs and GPUs of one trial. If it has several workers, it starts them itself and they share these."""

    cpus: float = 1.0
    gpus: float = 0.0
    workers: int = 1

    @property
    def nested(self) -> bool:
        """Whether the trial starts workers, which use its CPUs and GPUs."""
        return self.workers > 1

    @property
    def waiting(self) -> "Resources":
        """The resources of a trial while its workers wait for theirs."""
        own = self.of_trial()
        return Resources(cpus=own["CPU"], gpus=own.get("GPU", 0.0))

    def after(self, waited: float, seconds: float) -> "Resources":
        """Average resources of a trial over `seconds`, if its workers had none for the first `waited` seconds."""
        share = min(1.0, waited / seconds) if self.nested and seconds > 0 else 0.0
        idle = self.waiting
        return replace(
            self,
            cpus=share * idle.cpus + (1 - share) * self.cpus,
            gpus=share * idle.gpus + (1 - share) * self.gpus,
        )

    def of_kind(self, had: "Resources") -> bool:
        """Whether a trial with these average resources had as many workers, and as much for each while it had them."""
        if had.workers != self.workers:
            return False
        idle = self.waiting.cpus
        share = min(1.0, (had.cpus - idle) / (self.cpus - idle)) if self.nested else 1.0  # with all resources
        whole = share * self.cpus + (1 - share) * idle, share * self.gpus
        return all(math.isclose(*each, rel_tol=1e-3) for each in zip((had.cpus, had.gpus), whole, strict=True))

    def of_trial(self) -> dict[str, float]:
        """The resources that Tune reserves for the trial's own process."""
        if self.nested:
            return {"CPU": DRIVER_CPUS}
        return {"CPU": self.cpus, **({"GPU": self.gpus} if self.gpus else {})}

    def at_once(self, available: Mapping[str, float], wished: int = 0) -> int:
        """How many such trials fit side by side.

        Trials that start workers share the CPUs with them: only as many start as can finish. More would hold CPUs that
        the workers of others wait for.

        Args:
            available: CPUs and GPUs of the cluster.
            wished: At most so many; 0: no limit.

        Raises:
            InputError: Not even one fits.
        """
        cpus = self.cpus + (DRIVER_CPUS if self.nested else 0.0)
        fits = int(available.get("CPU", 0.0) / cpus + 1e-9) if cpus else 10**6
        if self.gpus:
            fits = min(fits, int(available.get("GPU", 0.0) / self.gpus + 1e-9))
        if fits < 1:
            raise InputError(
                f"a trial needs {cpus:g} CPUs and {self.gpus:g} GPUs, the cluster has {available.get('CPU', 0):g} and "
                f"{available.get('GPU', 0):g}; {_LOWER}"
            )
        return min(fits, wished) if wished else fits

    def most(self, could: Capacity, labels: Mapping[str, str] | None = None) -> dict[str, float]:
        """CPUs and GPUs that whole trials can use on nodes with these labels.

        Raises:
            InputError: Not even one fits.
        """
        cpus, gpus, own = self.cpus / self.workers, self.gpus / self.workers, DRIVER_CPUS if self.nested else 0.0
        fits = could.groups(self.workers, cpus, gpus, labels, driver_cpus=own)
        if not fits:
            total, workers = could.total(labels), f"{self.workers} workers of " if self.nested else ""
            raise InputError(
                f"a trial needs {workers}{cpus:g} CPUs and {gpus:g} GPUs of one node, but the cluster has "
                f"{total['CPU']:g} and {total['GPU']:g} in total; {_LOWER}"
            )
        return {"CPU": fits * (self.cpus + own), "GPU": fits * self.gpus}


@dataclass(frozen=True, kw_only=True, slots=True)
class Caps:
    """Keys that limit the cost of a sweep over all calls."""

    max_seconds: float = knob(0.0, "start no trial if the seconds of all trials would exceed this; 0: no limit", low=0)
    max_gpu_hours: float = knob(0.0, "start no trial if the GPU-hours of all would exceed this; 0: no limit", low=0)
    max_cost: float = knob(0.0, "start no trial if the cost of all would exceed this at sweep.price; 0: none", low=0)
    price: float = knob(0.0, "price of a GPU-hour, or of a CPU-hour if trials use no GPU, in any currency", low=0)

    @property
    def capped(self) -> bool:
        """Whether a sweep may end before its last trial."""
        return bool(self.max_seconds or self.max_gpu_hours or self.max_cost)


@dataclass(frozen=True, slots=True)
class Budget:
    """The caps of a sweep, and the resources of one of its trials.

    `sweep.price` is the price of a GPU-hour if trials use GPUs, otherwise of a CPU-hour.
    """

    caps: Caps
    need: Resources

    def check(self) -> None:
        """Raises InputError for a cap that these trials could not reach."""
        if self.caps.max_gpu_hours and not self.need.gpus:
            raise InputError("sweep.max_gpu_hours: trials of this sweep take no GPU; use sweep.max_seconds")
        if self.caps.max_cost and not self.caps.price:
            hour = "GPU-hour" if self.need.gpus else "CPU-hour"
            key = f"sweep.max_cost={self.caps.max_cost:g}"
            raise InputError(f"{key}: needs sweep.price, the price of a {hour} of trials")

    def money(self, seconds: float, had: Resources | None = None) -> float:
        """The price of trials.

        Args:
            seconds: How long they ran.
            had: The resources that they had, if these are others than the next trials need.
        """
        each = had or self.need
        return self.caps.price * (each.gpus if self.need.gpus else each.cpus) * seconds / 3600

    def left(self, costs: Iterable[Cost]) -> float:
        """Seconds that trials may still take after these costs; negative if a cap is exceeded, infinite without one."""
        spent = list(costs)
        return min(
            (
                (limit - sum(seconds * rate(had) for seconds, had in spent)) / rate(self.need)
                for limit, rate, _ in self._limits()
            ),
            default=math.inf,
        )

    def lines(self, costs: Iterable[Cost]) -> list[str]:
        """One line for each cap with the amount used, for a dry run."""
        spent = list(costs)
        return [
            f"cap: {limit:g} {unit}, {sum(seconds * rate(had) for seconds, had in spent):.3g} spent; what runs then "
            "ends, nothing new starts"
            for limit, rate, unit in self._limits()
        ]

    def priced(self, seconds: float) -> str:
        """So many seconds of trials in GPU-hours and money, each after a comma."""
        text = f", {seconds * self.need.gpus / 3600:.2f} GPU-hours" if self.need.gpus else ""
        return text + (f", {self.money(seconds):.2f} of money" if self.caps.price else "")

    def _limits(self) -> list[tuple[float, Callable[[Resources], float], str]]:
        """(limit, what a second of a trial with some resources uses of it, unit) of the caps that are set."""
        caps = self.caps
        every: list[tuple[float, Callable[[Resources], float], str]] = [
            (caps.max_seconds, lambda had: 1.0, "s of trials"),
            (caps.max_gpu_hours, lambda had: had.gpus / 3600, "GPU-hours"),
            (caps.max_cost, lambda had: self.money(1.0, had), "of money"),
        ]
        return [each for each in every if each[0]]


@dataclass
class Meter:
    """Counts what a sweep has spent, and decides whether one more trial may start.

    A trial starts only if what was spent, what the running ones are expected to take and its own expected time fit. The
    cap is exceeded only as far as trials take longer than expected (the median of earlier ones). If there is a cap and
    no estimate of a trial's time, one trial starts alone, and its first epochs or its end give the estimate. A trial
    that waits for resources counts with its expected time, however long it waits.

    Args:
        budget: The caps.
        costs: Of all trials so far, failed ones included.
        expected: Seconds of one trial, if there is an estimate.
        clock: Seconds.
    """

    budget: Budget
    costs: list[Cost] = field(default_factory=list)
    expected: float | None = None
    clock: Callable[[], float] = time.monotonic
    _waiting: set[str] = field(default_factory=set)
    _running: dict[str, float] = field(default_factory=dict)
    _lengths: list[float] = field(default_factory=list)  # seconds of trials that have ended in this call
    _guessed: bool = False  # whether `expected` comes from epochs of a trial that still runs

    def allows(self) -> bool:
        """Whether one more trial may start."""
        left = self.budget.left(self.costs)
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
        """Count a trial that will start as soon as it has resources."""
        self._waiting.add(trial)

    def started(self, trial: str) -> None:
        """Count a trial that starts now."""
        self._waiting.discard(trial)
        self._running[trial] = self.clock()

    def progressed(self, trial: str, share: float) -> None:
        """Estimate the time of a trial from a running one that has done a share of its work, between 0 and 1."""
        if not self._lengths and (self._guessed or not self.expected) and trial in self._running:
            self.expected, self._guessed = self.elapsed(trial) / share, True

    def elapsed(self, trial: str) -> float:
        """Seconds since a running trial started."""
        return self.clock() - self._running.get(trial, self.clock())

    def ended(self, trial: str, seconds: float, had: Resources, length: float | None = None) -> None:
        """Count the end of an attempt at a trial.

        Args:
            trial: Its id.
            seconds: What the attempt cost.
            had: The resources that it had on average.
            length: Seconds of the trial from beginning to end, if it ran to its end.
        """
        self._waiting.discard(trial)
        self._running.pop(trial, None)
        self.costs.append((seconds, had))
        if length is not None:
            bisect.insort(self._lengths, length)  # sorted: the median of 10,000 costs little then
            if len(self._lengths) > 2 or self._guessed or not self.expected:
                self.expected, self._guessed = statistics.median(self._lengths), False
