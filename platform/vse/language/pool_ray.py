"""Work on shards over a cluster with Ray Data: a pool of actors that each hold what the work needs."""

import warnings
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
import ray
import ray.data

ACTOR_CPUS = 0.75  # leaves room on hosts with one core: actors that fill all cores starve what feeds them


def counts_of_shards(
    batches: Iterable[list[pa.Table]], worker: type, arguments: dict[str, Any], num_shards: int, num_workers: int | None
) -> Iterator[int]:
    """The column `count` that workers return, shard by shard as they finish.

    batches: shards (a table each) that are handed over together; worker: a class whose instances, made with
    `arguments`, turn the columns of one shard into {"count": [number]}. Ray must be running.
    """
    cores = float(ray.cluster_resources().get("CPU", 1))
    most = max(1, min(num_workers or int(cores / ACTOR_CPUS), int((cores - 0.25) / ACTOR_CPUS), num_shards))
    with warnings.catch_warnings():
        # Ray Data fills its context field by field, its own deprecated ones among them
        warnings.filterwarnings("ignore", r"`use_\w+` is deprecated", DeprecationWarning)
        context = ray.data.DataContext.get_current().copy()
        context.enable_progress_bars = False  # ours counts written captions, in all surroundings
        context.print_on_execution_start = False
        with ray.data.DataContext.current(context):
            for shards in batches:
                rows = ray.data.from_arrow(shards).map_batches(
                    worker,
                    fn_constructor_kwargs=arguments,
                    batch_size=None,  # a block is a shard
                    compute=ray.data.ActorPoolStrategy(min_size=1, max_size=most),
                    num_cpus=ACTOR_CPUS,
                )
                for row in rows.iter_rows():
                    yield int(row["count"])
