"""Parsing over a cluster with Ray Data: a pool of actors, each with its own parser, writes shards where it runs."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import ray
import ray.data

from vse.language.parser import Parser
from vse.language.parsing import parse_shard
from vse.storage import Folder

ACTOR_CPUS = 0.75  # leaves room on hosts with one core: actors that fill all cores starve what feeds them


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
    cores = float(ray.cluster_resources().get("CPU", 1))
    most = max(1, min(num_workers or int(cores / ACTOR_CPUS), int((cores - 0.25) / ACTOR_CPUS), len(shards)))
    with warnings.catch_warnings():
        # Ray Data fills its context field by field, its own deprecated ones among them
        warnings.filterwarnings("ignore", r"`use_\w+` is deprecated", DeprecationWarning)
        context = ray.data.DataContext.get_current().copy()
        context.enable_progress_bars = False  # ours counts written captions, in all surroundings
        context.print_on_execution_start = False
        with ray.data.DataContext.current(context):
            rows = ray.data.from_arrow([pa.table({"text": shard}) for shard in shards]).map_batches(
                _ShardParser,
                fn_constructor_kwargs={"config": config, "folder": folder},
                batch_size=None,  # a block is a shard
                compute=ray.data.ActorPoolStrategy(min_size=1, max_size=most),
                num_cpus=ACTOR_CPUS,
            )
            for row in rows.iter_rows():
                yield int(row["count"])
