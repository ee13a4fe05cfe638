"""The candidate stage over a cluster with Ray Data: a pool of actors, each with its own generator, writes shards."""

import json
from collections.abc import Iterator
from dataclasses import astuple
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from vse.language.contrast.stage import Recipe, Shard, make_shard
from vse.language.parse import ParsedToken
from vse.language.pool_ray import counts_of_shards

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
    batches = iter(lambda: [_table(shard) for shard in islice(shards, AT_ONCE)], [])
    yield from counts_of_shards(batches, _ShardMaker, {"recipe": recipe}, num_shards, num_workers)


def _table(shard: Shard) -> pa.Table:
    return pa.table({"shard": [_packed(shard)]})
