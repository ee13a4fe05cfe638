"""Work on captions in shards, for the parse and the candidate stage: in this process, in several, or with Ray.

A stage gives a function that makes and writes one shard and returns its number of captions. The same captions give the
same file, so a shard may be made twice.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from vse.cluster.runtime import Cluster, in_trial
from vse.stages.processes import main_can_be_imported, process_pool

Shard = TypeVar("Shard")


def run_shards(
    make: Callable[[Shard], int],
    shards: Iterable[Shard],
    sizes: Sequence[int],
    missing: Callable[[Sequence[Shard]], Iterable[Shard]],
    *,
    num_workers: int | None,
    cluster: Cluster | None,
    worth_a_process: int,
    worth_ray: int,
) -> Iterator[int]:
    """Yield numbers of captions, shard by shard as they are written.

    Args:
        make: makes and writes one shard, and returns its number of captions; other processes must be able to import it.
        shards: what `make` takes, made when it is asked for.
        sizes: number of captions of each shard.
        missing: those of some shards that are not written yet, asked if a process pool breaks.
        num_workers: processes; by default one for few captions, else as many as cores, at most four.
        cluster: gives a running Ray; without it Ray is used only if it runs already.
        worth_a_process: captions that take as long as starting a process.
        worth_ray: captions that take as long as starting a pool of Ray actors.
    """
    num_captions = sum(sizes)
    if num_captions >= worth_ray and num_workers != 1:
        with ray_runs(cluster) as runs:
            if runs:
                from vse.stages.shards_ray import run_with_ray  # Ray takes seconds to import

                yield from run_with_ray(make, shards, len(sizes), num_workers)
                return
    if num_workers is None:
        num_workers = min(4, os.cpu_count() or 1, max(1, num_captions // worth_a_process))
    num_workers = min(num_workers, len(sizes))
    if num_workers > 1 and main_can_be_imported():
        shards = list(shards)
        try:
            with process_pool(num_workers) as pool:
                for future in as_completed([pool.submit(make, shard) for shard in shards]):
                    yield future.result()
            return
        except BrokenProcessPool:  # a script without a __main__ guard, or no memory for a second process
            shards = missing(shards)
    for shard in shards:
        yield make(shard)


@contextlib.contextmanager
def ray_runs(cluster: Cluster | None) -> Generator[bool]:
    """Whether Ray can be used in the body: one that runs already, or the one that `cluster` gives."""
    if in_trial():
        yield False
        return
    with cluster() if cluster is not None else contextlib.nullcontext():
        ray = sys.modules.get("ray")  # not imported: not running
        yield ray is not None and bool(ray.is_initialized())
