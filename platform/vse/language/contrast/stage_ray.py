"""The candidate stage over a cluster with Ray Data: a pool of actors, each with its own generator, writes shards."""

import json
import warnings
from collections.abc import Iterator
from dataclasses import astuple
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import ray
import ray.data

from vse.language.contrast.stage import Recipe, Shard, make_shard
from vse.language.parse import ParsedToken
from vse.language.parsing_ray import ACTOR_CPUS

AT_ONCE = 64  # shards handed over together: parses of some 250,000 captions, a few hundred megabytes


class _ShardMaker:
    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, Any]:
        return {"count": [make_shard(_unpacked(str(shard)), self.recipe) for shard in batch["shard"]]}


def _packed(shard: Shard) -> str:
    """A shard as text, since Arrow has no column of parses."""
    return json.dumps([[*row[:3], [astuple(token) for token in row[3]]] for row in shard])


def _unpacked(text: str) -> Shard:
    rows = json.loads(text)
    return [(row[0], row[1], row[2], tuple(ParsedToken(*token) for token in row[3])) for row in rows]


def make_with_ray(shards: Iterator[Shard], num_shards: int, recipe: Recipe, num_workers: int | None) -> Iterator[int]:
    """Numbers of captions, shard by shard. Ray must be running and the recipe's folder seen from every node."""
    cores = float(ray.cluster_resources().get("CPU", 1))
    most = max(1, min(num_workers or int(cores / ACTOR_CPUS), int((cores - 0.25) / ACTOR_CPUS), num_shards))
    with warnings.catch_warnings():
        # Ray Data fills its context field by field, its own deprecated ones among them
        warnings.filterwarnings("ignore", r"`use_\w+` is deprecated", DeprecationWarning)
        context = ray.data.DataContext.get_current().copy()
        context.enable_progress_bars = False  # ours counts written captions, in all surroundings
        context.print_on_execution_start = False
        with ray.data.DataContext.current(context):
            while some := list(islice(shards, AT_ONCE)):
                rows = ray.data.from_arrow([pa.table({"shard": [_packed(shard)]}) for shard in some]).map_batches(
                    _ShardMaker,
                    fn_constructor_kwargs={"recipe": recipe},
                    batch_size=None,  # a block is a shard
                    compute=ray.data.ActorPoolStrategy(min_size=1, max_size=most),
                    num_cpus=ACTOR_CPUS,
                )
                for row in rows.iter_rows():
                    yield int(row["count"])
