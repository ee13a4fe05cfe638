"""Probes as Ray tasks: one training a task, as many at once as the cluster has cores, or GPUs for a run on one."""

from collections.abc import Iterator, Sequence

import ray
import torch

from vse.cluster.placement import capacity
from vse.errors import InputError
from vse.evaluation.probes.runner import Arrays, Job, Probe


def run_with_ray(jobs: Sequence[Job], device: torch.device) -> Iterator[tuple[int, Arrays]]:
    """Yield (position of a job, its result) as tasks finish. Ray must be running; it retries a task whose node is lost.

    Args:
        jobs: Probes with seeds. The data of a probe go to the object store once, whatever the number of seeds.
        device: Where each is trained.

    Raises:
        InputError: They are to be trained on GPUs, and the cluster can have none.
    """
    gpus = 1 if device.type == "cuda" else 0
    if gpus and not capacity().total()["GPU"]:
        raise InputError(
            "measure.device=cuda: the cluster can have no GPU to train probes; measure.device=cpu does not ask for one"
        )
    fit = ray.remote(num_cpus=1, num_gpus=gpus)(_fit)
    stored = {id(probe): ray.put(probe) for probe, _ in jobs}
    waiting = {fit.remote(stored[id(probe)], seed, device.type): number for number, (probe, seed) in enumerate(jobs)}
    while waiting:
        done, _ = ray.wait(list(waiting), num_returns=1)
        for task in done:
            yield waiting.pop(task), ray.get(task)


def _fit(probe: Probe, seed: int, device: str) -> Arrays:
    return probe.fit(seed, torch.device(device))
