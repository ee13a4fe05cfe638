"""Ray Data as stages use it: quiet, on cores that leave room for what feeds the actors, and without waiting forever."""

import contextlib
import warnings
from collections.abc import Iterable, Iterator

import pyarrow as pa
import ray.data
from ray.data.exceptions import ExecutionTimeoutError

from vse.errors import PlacementError

# Shares of a core that leave room on any host, even with one core: actors that fill all cores starve the tasks that
# feed them, and Ray Data then waits forever (ray-project/ray#44687).
ACTOR_CPUS, TASK_CPUS = 0.75, 0.25


def dataset_of(tables: Iterable[pa.Table]) -> ray.data.Dataset:
    """A data set of these blocks. Ray Data's `from_arrow` looks at each in a task of a whole core, all of them at once:
    an autoscaler brings every kind of node for that, those with GPUs too."""
    return ray.data.from_blocks(list(tables))


@contextlib.contextmanager
def data_work(what: str, **most: float) -> Iterator[None]:
    """Without Ray Data's bars and banners: ours count what is committed, in all surroundings.

    most: what the work takes at most, of `cpu` or `gpu`; Ray Data would have an autoscaler bring twice what is up.
    Raises PlacementError if nothing has moved for long, as no node came that its actors fit on.
    """
    with warnings.catch_warnings():
        # Ray Data fills its context field by field, its own deprecated ones among them
        warnings.filterwarnings("ignore", r"`use_\w+` is deprecated", DeprecationWarning)
        context = ray.data.DataContext.get_current().copy()
        context.enable_progress_bars = context.print_on_execution_start = False
        context.execution_options.resource_limits = ray.data.ExecutionResources.for_limits(**most)
        with ray.data.DataContext.current(context):
            try:
                yield
            except ExecutionTimeoutError:
                raise PlacementError(
                    f"{what}: nothing has moved for {context.execution_no_progress_timeout_s:g} s; the nodes it needs "
                    "may not be coming, see `ray status`"
                ) from None
