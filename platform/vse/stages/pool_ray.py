"""Work on shards over a cluster with Ray Data: a pool of actors that each hold what the work needs."""

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import ray
import ray.data

from vse.cluster.capacity import Capacity, living
from vse.cluster.placement import capacity
from vse.cluster.ray_data import ACTOR_CPUS, TASK_CPUS, data_work, dataset_of


def pool_of(now: Capacity, could: Capacity, num_shards: int, workers: int | None) -> tuple[int, int]:
    """(least, most) actors: what the cores hold of the nodes that are up (`now`) or could be, at most one a shard.

    Of nodes yet to come only those without GPUs count, where there are such. As Ray Data asks for no actor beyond the
    nodes that are up, those that are to bring nodes are there from the start.
    """
    here = _held(now)
    ever = max(here, _held(could.without_gpus()))
    most = max(1, min(workers or ever, ever, num_shards))
    return (most if most > here else 1), most


def _held(nodes: Capacity) -> int:
    """Actors that nodes hold, each of them within one, beside a task that feeds them. For one more, an autoscaler that
    has no other nodes left would bring one with a GPU."""
    fits = nodes.room(ACTOR_CPUS)
    return fits if fits * ACTOR_CPUS + TASK_CPUS <= nodes.total()["CPU"] else max(0, fits - 1)


def counts_of_shards(
    batches: Iterable[list[pa.Table]], worker: type, arguments: dict[str, Any], num_shards: int, num_workers: int | None
) -> Iterator[int]:
    """The column `count` that workers return, shard by shard as they finish.

    batches: shards (a table each) that are handed over together; worker: a class whose instances, made with
    `arguments`, turn the columns of one shard into {"count": [number]}. Ray must be running. Raises PlacementError
    where no node came for it.
    """
    least, most = pool_of(living(ray.nodes()), capacity(), num_shards, num_workers)
    with data_work("work on captions", cpu=most * ACTOR_CPUS):
        for shards in batches:
            rows = dataset_of(shards).map_batches(
                worker,
                fn_constructor_kwargs=arguments,
                batch_size=None,  # a block is a shard
                compute=ray.data.ActorPoolStrategy(min_size=least, max_size=most),
                num_cpus=ACTOR_CPUS,
            )
            for row in rows.iter_rows():
                yield int(row["count"])
