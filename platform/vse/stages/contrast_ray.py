"""The candidate stage over a cluster with Ray Data: a pool of actors, each with its own generator, writes shards."""

import json
from collections.abc import Callable, Iterator
from dataclasses import astuple
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from vse.stages.pool_ray import counts_of_shards
from vse.text.parse import Parse, ParsedToken

Shard = list[tuple[str, str, str, Parse]]  # (id, image, text, parse) of captions
MakeShard = Callable[[Shard], int]  # writes one shard; its number of captions
AT_ONCE = 64  # shards handed over together: parses of some 250,000 captions, a few hundred megabytes


class _ShardMaker:
    def __init__(self, make: MakeShard) -> None:
        self.make = make

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, Any]:
        return {"count": [self.make(_unpacked(str(shard))) for shard in batch["shard"]]}


def _packed(shard: Shard) -> str:
    """A shard as text, since Arrow has no column of parses."""
    return json.dumps([[*row[:3], [astuple(token) for token in row[3]]] for row in shard])


def _unpacked(text: str) -> Shard:
    rows = json.loads(text)
    return [(row[0], row[1], row[2], tuple(ParsedToken(*token) for token in row[3])) for row in rows]


def make_with_ray(make: MakeShard, shards: Iterator[Shard], num_shards: int, num_workers: int | None) -> Iterator[int]:
    """Numbers of captions, shard by shard as `make` writes them where every node sees them. Ray must be running."""
    batches = iter(lambda: [_table(shard) for shard in islice(shards, AT_ONCE)], [])
    yield from counts_of_shards(batches, _ShardMaker, {"make": make}, num_shards, num_workers)


def _table(shard: Shard) -> pa.Table:
    return pa.table({"shard": [_packed(shard)]})
