"""Work on shards of captions with Ray Data: a pool of actors writes each shard where every node sees it."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import astuple
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import ray
import ray.data

from vse.cluster.capacity import Capacity, living
from vse.cluster.placement import capacity
from vse.cluster.ray_data import ACTOR_CPUS, TASK_CPUS, data_work, dataset_of
from vse.text.parse import ParsedToken

AT_ONCE = 64  # shards handed over together: parses of some 250,000 captions, a few hundred megabytes
Shard = TypeVar("Shard")


class _ShardMaker:
    """The actor."""

    def __init__(self, make: Callable[[Any], int]) -> None:
        self.make = make

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, Any]:
        return {"count": [self.make(_unpacked(str(shard))) for shard in batch["shard"]]}


def _packed(shard: Any) -> str:
    """A shard as JSON, since Arrow has no column of parses."""
    return json.dumps(shard, default=astuple)


def _unpacked(text: str) -> list[Any]:
    return [
        row if isinstance(row, str) else (*row[:3], tuple(ParsedToken(*token) for token in row[3]))
        for row in json.loads(text)
    ]


def run_with_ray(
    make: Callable[[Shard], int], shards: Iterable[Shard], num_shards: int, num_workers: int | None
) -> Iterator[int]:
    """Yield numbers of captions, shard by shard as `make` writes them. Ray must be running.

    Args:
        make: makes and writes one shard, and returns its number of captions.
        shards: what `make` takes: texts, or captions as (id, image, text, parse).
        num_shards: how many there are.
        num_workers: actors, by default as many as the cluster could hold.

    Raises:
        PlacementError: no node came.
    """
    least, most = pool_size(living(ray.nodes()), capacity(), num_shards, num_workers)
    waiting = iter(shards)
    with data_work("work on captions", cpu=most * ACTOR_CPUS):
        while tables := [pa.table({"shard": [_packed(shard)]}) for shard in islice(waiting, AT_ONCE)]:
            rows = dataset_of(tables).map_batches(
                _ShardMaker,
                fn_constructor_kwargs={"make": make},
                batch_size=None,  # a block is a shard
                compute=ray.data.ActorPoolStrategy(min_size=least, max_size=most),
                num_cpus=ACTOR_CPUS,
            )
            for row in rows.iter_rows():
                yield int(row["count"])


def pool_size(now: Capacity, could: Capacity, num_shards: int, workers: int | None) -> tuple[int, int]:
    """(least, most) actors, at most one a shard.

    Ray Data asks for no actor beyond the nodes that are up, so actors that bring new nodes are wanted from the start.

    Args:
        now: the nodes that are up.
        could: the nodes that there could be; GPU nodes count only if there are no others.
        num_shards: how many shards are to be made.
        workers: actors that the user asks for.
    """
    here = _num_actors(now)
    ever = max(here, _num_actors(could.without_gpus()))
    most = max(1, min(workers or ever, ever, num_shards))
    return (most if most > here else 1), most


def _num_actors(nodes: Capacity) -> int:
    """How many actors fit into single nodes, with room for a task that feeds them. For one actor more, an autoscaler
    that has no other nodes left would start one with a GPU."""
    fits = nodes.room(ACTOR_CPUS)
    return fits if fits * ACTOR_CPUS + TASK_CPUS <= nodes.total()["CPU"] else max(0, fits - 1)
