"""CPUs and GPUs of one trial, and how many such trials fit side by side."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from vse.cluster.capacity import Capacity
from vse.errors import InputError

DRIVER_CPUS = 0.1  # of a trial that only waits for workers of its own
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
        """What a trial has while its workers wait for theirs."""
        own = self.of_trial()
        return Resources(cpus=own["CPU"], gpus=own.get("GPU", 0.0))

    def after(self, waited: float, seconds: float) -> "Resources":
        """What a trial had on average over `seconds`, if its workers waited for resources during `waited` of them."""
        share = min(1.0, waited / seconds) if self.nested and seconds > 0 else 0.0
        idle = self.waiting
        return replace(
            self,
            cpus=share * idle.cpus + (1 - share) * self.cpus,
            gpus=share * idle.gpus + (1 - share) * self.gpus,
        )

    def share_of(self, whole: "Resources") -> float:
        """Which share of `whole` this is: of its GPUs, or of its CPUs if it has none."""
        return self.gpus / whole.gpus if whole.gpus else self.cpus / whole.cpus

    def of_kind(self, had: "Resources") -> bool:
        """Whether a trial that had this on average had these workers, with as much for each while they did not wait."""
        if had.workers != self.workers:
            return False
        idle = self.waiting.cpus
        share = min(1.0, (had.cpus - idle) / (self.cpus - idle)) if self.nested else 1.0  # of its time in these places
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
        """CPUs and GPUs that such trials can have on nodes with these labels, without what no trial fits on.

        Raises:
            InputError: Not even one fits.
        """
        cpus, gpus, own = self.cpus / self.workers, self.gpus / self.workers, DRIVER_CPUS if self.nested else 0.0
        fits = could.groups(self.workers, cpus, gpus, labels, beside=own)
        if not fits:
            total, workers = could.total(labels), f"{self.workers} workers of " if self.nested else ""
            raise InputError(
                f"a trial needs {workers}{cpus:g} CPUs and {gpus:g} GPUs of one node, and the cluster has "
                f"{total['CPU']:g} and {total['GPU']:g} in all; {_LOWER}"
            )
        return {"CPU": fits * (self.cpus + own), "GPU": fits * self.gpus}
