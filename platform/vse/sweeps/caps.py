"""What a sweep may spend: seconds of trials, GPU-hours, money. Its trials may differ in what they need."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from vse.config import knob
from vse.errors import InputError
from vse.sweeps.budget import Meter, typical
from vse.sweeps.ledger import Entry
from vse.sweeps.need import Need


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
    """The caps of a sweep whose trainings take `need` each: what an hour has its price of, GPUs or CPUs.

    Trials that take no GPU beside trainings on GPUs count as seconds, and as nothing in GPU-hours or money.
    """

    caps: Caps
    need: Need

    def check(self) -> None:
        """Raises InputError for a cap that says nothing of these trainings."""
        if self.caps.max_gpu_hours and not self.need.gpus:
            raise InputError("sweep.max_gpu_hours: trials of this sweep take no GPU; use sweep.max_seconds")
        if self.caps.max_cost and not self.caps.price:
            hour = "GPU-hour" if self.need.gpus else "CPU-hour"
            asked = f"sweep.max_cost={self.caps.max_cost:g}"
            raise InputError(f"{asked}: needs sweep.price, the price of a {hour} of trials")

    def money(self, seconds: float, need: Need | None = None) -> float:
        """What so many seconds of trials cost at `sweep.price`; of trainings where no other need is given."""
        each = need or self.need
        return self.caps.price * (each.gpus if self.need.gpus else each.cpus) * seconds / 3600

    def left(self, spent: Iterable[tuple[float, Need]], need: Need) -> float:
        """Seconds that trials of this need may still take after the (seconds, need) of those before; negative where a
        cap is overspent, infinite where none is theirs."""
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
        spent: Iterable[tuple[float, Need]],
        need: Need,
        alike: Iterable[Entry],
        estimate: Callable[[], float | None] = lambda: None,
    ) -> Meter:
        """For trials of one need, after those before; of the known trials `alike`, those with this need say what the
        next ones take.

        estimate: seconds that one is expected to take, asked for where a cap is set and no known trial says it.
        """
        known, expected = list(spent), typical(alike, need)
        of_time, of_resources = replace(self.caps, max_gpu_hours=0.0, max_cost=0.0), replace(self.caps, max_seconds=0.0)
        limit, in_full = (replace(self, caps=caps).left(known, need) for caps in (of_time, of_resources))
        if expected is None and math.isfinite(min(limit, in_full)):
            expected = estimate()
        return Meter(limit=limit, limit_in_full=in_full, expected=expected)

    def lines(self, spent: Iterable[tuple[float, Need]]) -> list[str]:
        """One line a cap, with what was spent of it, for a dry run."""
        known = list(spent)
        return [
            f"cap: {limit:g} {unit}, {sum(seconds * rate(each) for seconds, each in known):.3g} spent; what runs then "
            "ends, nothing new starts"
            for limit, rate, unit in self._limits()
        ]

    def priced(self, seconds: float) -> str:
        """What so many seconds of trainings are beside seconds, each after a comma."""
        text = f", {seconds * self.need.gpus / 3600:.2f} GPU-hours" if self.need.gpus else ""
        return text + (f", {self.money(seconds):.2f} of money" if self.caps.price else "")

    def _limits(self) -> list[tuple[float, Callable[[Need], float], str]]:
        """(limit, what a second of a trial takes of it, unit) of the caps that are set."""
        caps = self.caps
        every: list[tuple[float, Callable[[Need], float], str]] = [
            (caps.max_seconds, lambda need: 1.0, "s of trials"),
            (caps.max_gpu_hours, lambda need: need.gpus / 3600, "GPU-hours"),
            (caps.max_cost, lambda need: self.money(1.0, need), "of money"),
        ]
        return [each for each in every if each[0]]
