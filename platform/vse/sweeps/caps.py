"""What a sweep may spend: seconds of trials, GPU-hours, money."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from vse.config import knob
from vse.errors import InputError
from vse.sweeps.budget import Meter, typical
from vse.sweeps.ledger import Entry
from vse.sweeps.resources import Resources


@dataclass(frozen=True, kw_only=True, slots=True)
class Caps:
    """Keys of a sweep that limit what it spends, over all calls."""

    max_seconds: float = knob(0.0, "start no trial that would take trials past this many seconds; 0: no limit", low=0)
    max_gpu_hours: float = knob(
        0.0, "start no trial that would take trials past this many GPU-hours; 0: no limit", low=0
    )
    max_cost: float = knob(
        0.0, "start no trial that would take trials past this cost at sweep.price; 0: no limit", low=0
    )
    price: float = knob(0.0, "price of a GPU-hour, or of a CPU-hour where trials take no GPU, in any currency", low=0)


@dataclass(frozen=True, slots=True)
class Budget:
    """The caps of a sweep, and the resources of one of its trials. The price is that of a GPU-hour if it has GPUs."""

    caps: Caps
    need: Resources

    def check(self) -> None:
        """Raises InputError for a cap that these trials could not reach."""
        if self.caps.max_gpu_hours and not self.need.gpus:
            raise InputError("sweep.max_gpu_hours: trials of this sweep take no GPU; use sweep.max_seconds")
        if self.caps.max_cost and not self.caps.price:
            hour = "GPU-hour" if self.need.gpus else "CPU-hour"
            asked = f"sweep.max_cost={self.caps.max_cost:g}"
            raise InputError(f"{asked}: needs sweep.price, the price of a {hour} of trials")

    def money(self, seconds: float, need: Resources | None = None) -> float:
        """What so many seconds of trials cost at `sweep.price`; `need`: of trials with other resources."""
        each = need or self.need
        return self.caps.price * (each.gpus if self.need.gpus else each.cpus) * seconds / 3600

    def left(self, spent: Iterable[tuple[float, Resources]], need: Resources) -> float:
        """Seconds that trials with these resources may still take; negative if a cap is overspent, infinite without
        one.

        `spent`: (seconds, resources) of earlier trials.
        """
        known = list(spent)
        return min(
            (
                (limit - sum(seconds * rate(each) for seconds, each in known)) / rate(need)
                for limit, rate, _ in self._limits()
                if rate(need)
            ),
            default=float("inf"),
        )

    def meter(
        self,
        spent: Iterable[tuple[float, Resources]],
        need: Resources,
        alike: Iterable[Entry],
        estimate: Callable[[], float | None] = lambda: None,
    ) -> Meter:
        """A meter for the next trials.

        Args:
            spent: (seconds, resources) of earlier trials.
            need: Resources of the next ones.
            alike: Earlier trials; those with the same resources say how long the next ones take.
            estimate: Seconds of one trial. It is called if a cap is set and no earlier trial says it.
        """
        known, expected = list(spent), typical(alike, need)
        of_time, of_resources = replace(self.caps, max_gpu_hours=0.0, max_cost=0.0), replace(self.caps, max_seconds=0.0)
        limit, in_full = (replace(self, caps=caps).left(known, need) for caps in (of_time, of_resources))
        if expected is None and math.isfinite(min(limit, in_full)):
            expected = estimate()
        return Meter(limit=limit, limit_in_full=in_full, expected=expected)

    def lines(self, spent: Iterable[tuple[float, Resources]]) -> list[str]:
        """One line for each cap, with what was spent of it, for a dry run."""
        known = list(spent)
        return [
            f"cap: {limit:g} {unit}, {sum(seconds * rate(each) for seconds, each in known):.3g} spent; what runs then "
            "ends, nothing new starts"
            for limit, rate, unit in self._limits()
        ]

    def priced(self, seconds: float) -> str:
        """So many seconds of trials in GPU-hours and money, each after a comma."""
        text = f", {seconds * self.need.gpus / 3600:.2f} GPU-hours" if self.need.gpus else ""
        return text + (f", {self.money(seconds):.2f} of money" if self.caps.price else "")

    def _limits(self) -> list[tuple[float, Callable[[Resources], float], str]]:
        """(limit, what a second of a trial uses of it, unit) of the caps that are set."""
        caps = self.caps
        every: list[tuple[float, Callable[[Resources], float], str]] = [
            (caps.max_seconds, lambda need: 1.0, "s of trials"),
            (caps.max_gpu_hours, lambda need: need.gpus / 3600, "GPU-hours"),
            (caps.max_cost, lambda need: self.money(1.0, need), "of money"),
        ]
        return [each for each in every if each[0]]
