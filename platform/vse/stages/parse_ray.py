"""Parsing over a cluster with Ray Data: a pool of actors, each with its own parser, writes shards where it runs."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from vse.stages.pool_ray import counts_of_shards
from vse.storage.folder import Folder
from vse.text.parser import Parser

ParseShard = Callable[[Sequence[str], Parser.Config, Folder], int]


class _ShardParser:
    def __init__(self, parse: ParseShard, config: Parser.Config, folder: Folder) -> None:
        self.parse, self.config, self.folder = parse, config, folder

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, Any]:
        texts = [str(text) for text in batch["text"]]
        return {"count": [self.parse(texts, self.config, self.folder)]}


def parse_with_ray(
    parse: ParseShard, shards: list[list[str]], config: Parser.Config, folder: Folder, num_workers: int | None
) -> Iterator[int]:
    """Numbers of texts, shard by shard as `parse` writes them. Ray must be running; every node sees `folder`."""
    tables = [pa.table({"text": shard}) for shard in shards]
    arguments = {"parse": parse, "config": config, "folder": folder}
    yield from counts_of_shards([tables], _ShardParser, arguments, len(shards), num_workers)
