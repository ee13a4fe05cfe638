"""What one trial needs of the cluster, and how many such trials fit side by side."""

from collections.abc import Mapping
from dataclasses import dataclass

from vse.errors import InputError

DRIVER_CPUS = 0.1  # of a trial that only waits for workers of its own


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """What one trial needs of the cluster. `nested`: its CPUs and GPUs are taken by workers that it starts itself."""

    cpus: float = 1.0
    gpus: float = 0.0
    nested: bool = False

    def of_trial(self) -> dict[str, float]:
        """The resources that Tune reserves for the trial's own process."""
        if self.nested:
            return {"CPU": DRIVER_CPUS}
        return {"CPU": self.cpus, **({"GPU": self.gpus} if self.gpus else {})}

    def at_once(self, available: Mapping[str, float], wished: int = 0) -> int:
        """How many such trials fit side by side, at most `wished` if that is given (0: no limit).

        Trials that start their own workers share the CPUs with them, so only as many start as can finish: more would
        hold CPUs that the workers of others wait for. Raises InputError where not even one fits.
        """
        cpus = self.cpus + (DRIVER_CPUS if self.nested else 0.0)
        fits = int(available.get("CPU", 0.0) / cpus + 1e-9) if cpus else 10**6
        if self.gpus:
            fits = min(fits, int(available.get("GPU", 0.0) / self.gpus + 1e-9))
        if fits < 1:
            raise InputError(
                f"a trial needs {cpus:g} CPUs and {self.gpus:g} GPUs, the cluster has {available.get('CPU', 0):g} and "
                f"{available.get('GPU', 0):g}; lower train.workers, train.threads or train.gpus_per_worker"
            )
        return min(fits, wished) if wished else fits
