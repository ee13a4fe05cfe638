"""Work as Ray tasks: one part a task, as many at once as the cluster has cores, or GPUs for work on one."""

import logging
import time
from collections.abc import Iterator, Sequence

import ray
import torch
from ray.exceptions import RayTaskError

from vse.cluster.capacity import living
from vse.cluster.placement import capacity
from vse.cluster.runtime import placement_seconds, set_up_logging
from vse.errors import Diverged, InputError, PlacementError, StorageError
from vse.evaluation.work import Arrays, Job, Work
from vse.stages.trained import device_of

log = logging.getLogger(__name__)

AT_ONCE = 256  # tasks that Ray is given together, so that results and tasks in waiting stay few
LOOK_EVERY = 10.0  # seconds between looks at the nodes while no task ends


def run_with_ray(
    jobs: Sequence[Job], device: torch.device, *, any_device: bool = False
) -> Iterator[tuple[int, Arrays]]:
    """Yield (position of a job, its result) as tasks finish. Ray must be running; it retries a task whose node is lost.

    Args:
        jobs: What to compute. What work holds goes to the object store once, whatever the number of its parts.
        device: Where each is computed.
        any_device: Whether it is a GPU if the cluster can have one, whatever `device` is.

    Raises:
        InputError: They are to be computed on GPUs, and the cluster can have none, or torch finds none on a node with
            GPUs; or what a task raises.
        Diverged: A score is NaN.
        StorageError: A node cannot write a result.
        PlacementError: No node came that can hold a task.
    """
    there = capacity().total()["GPU"]
    kind = "cuda" if any_device and there else device.type
    gpus = 1 if kind == "cuda" else 0
    if gpus and not there:
        raise InputError("measure.device=cuda: the cluster cannot provide a GPU; use measure.device=cpu")
    compute = ray.remote(num_cpus=1, num_gpus=gpus)(_compute)
    stored = {id(work): ray.put(work) for work, _ in jobs}
    left, waiting, nodes = iter(enumerate(jobs)), dict[ray.ObjectRef, int](), _Nodes(gpus)
    while True:
        while len(waiting) < AT_ONCE and (following := next(left, None)) is not None:
            place, (work, number) = following
            waiting[compute.remote(stored[id(work)], number, kind)] = place
        if not waiting:
            return
        done, _ = ray.wait(list(waiting), num_returns=1, timeout=LOOK_EVERY)
        if not done:
            nodes.look()
        for task in done:
            try:
                result = ray.get(task)
            except RayTaskError as error:
                if isinstance(error.cause, InputError | Diverged | StorageError):
                    raise error.cause from None
                raise
            yield waiting.pop(task), result


class _Nodes:
    """The nodes that are up, and since when none of them can hold a task."""

    def __init__(self, gpus: int) -> None:
        self._gpus = gpus
        self._none: float | None = None

    def look(self) -> None:
        """Raises PlacementError if no node could hold a task for `placement_seconds`; warns at the beginning."""
        now, limit, up = time.monotonic(), placement_seconds(), living(ray.nodes())
        if up.room(1, self._gpus):
            self._none = None
            return
        asks, has = "a GPU" if self._gpus else "a CPU", up.total()
        nodes = f"{up.nodes} node{'' if up.nodes == 1 else 's'}"
        there = f"the cluster has {has['CPU']:g} CPUs and {has['GPU']:g} GPUs on {nodes}; see `ray status`"
        if self._none is None:
            self._none = now
            log.warning("measuring waits for a node with %s, at most %g s; %s", asks, limit, there)
        elif now - self._none >= limit:
            raise PlacementError(f"measuring: no node with {asks} started within {limit:g} s; {there}")


def _compute(work: Work, number: int, device: str) -> Arrays:
    set_up_logging()
    return work.compute(number, device_of(device, "measure.device"))  # one line if the GPU's driver has died
