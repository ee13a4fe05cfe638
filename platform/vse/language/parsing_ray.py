"""Parsing over a cluster with Ray Data: a pool of actors, each with its own parser, writes shards where it runs."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from vse.language.parser import Parser
from vse.language.parsing import parse_shard
from vse.language.pool_ray import counts_of_shards
from vse.storage import Folder


class _ShardParser:
    def __init__(self, config: Parser.Config, folder: Folder) -> None:
        self.config, self.folder = config, folder

    def __call__(self, batch: dict[str, np.ndarray]) -> dict[str, Any]:
        texts = [str(text) for text in batch["text"]]
        return {"count": [parse_shard(texts, self.config, self.folder)]}


def parse_with_ray(
    shards: list[list[str]], config: Parser.Config, folder: Folder, num_workers: int | None
) -> Iterator[int]:
    """Numbers of texts, shard by shard as they are written. Ray must be running and `folder` seen from every node."""
    tables = [pa.table({"text": shard}) for shard in shards]
    yield from counts_of_shards([tables], _ShardParser, {"config": config, "folder": folder}, len(shards), num_workers)
