"""Ray Data for stages: without its own output, with CPU shares that avoid deadlocks, and with a timeout."""

import contextlib
import re
import warnings
from collections.abc import Generator, Iterable

import pyarrow as pa
import ray.data
from ray.data.exceptions import ExecutionTimeoutError
from ray.exceptions import RayActorError

from vse.errors import InputError, PlacementError

# Shares of a core that leave room on any host, even with one core. Actors that fill all cores starve their input
# tasks, and Ray Data then waits forever (ray-project/ray#44687).
ACTOR_CPUS, TASK_CPUS = 0.75, 0.25
_INPUT_ERROR = re.compile(rf"^{InputError.__module__}\.{InputError.__name__}: (.+)$", re.MULTILINE)


def dataset_of(tables: Iterable[pa.Table]) -> ray.data.Dataset:
    """A data set of these blocks.

    Ray Data's `from_arrow` starts a task of a whole core for each, all at once. An autoscaler then starts every kind of
    node, even nodes with GPUs.
    """
    return ray.data.from_blocks(list(tables))


@contextlib.contextmanager
def data_work(what: str, **most: float) -> Generator[None]:
    """Run the body with limits for Ray Data, and without its progress bars and messages.

    Args:
        what: the work, for the error.
        most: limits of `cpu` or `gpu`; without them, an autoscaler would double the running nodes.

    Raises:
        InputError: if an actor raised it when it was created.
        PlacementError: if there is no progress for long, because no node started that actors fit on.
    """
    with warnings.catch_warnings():
        # Ray Data sets every field of its context, even its own deprecated ones
        warnings.filterwarnings("ignore", r"`use_\w+` is deprecated", DeprecationWarning)
        context = ray.data.DataContext.get_current().copy()
        context.enable_progress_bars = context.print_on_execution_start = False
        context.execution_options.resource_limits = ray.data.ExecutionResources.for_limits(**most)
        with ray.data.DataContext.current(context):
            try:
                yield
            except ExecutionTimeoutError:
                seconds = f"{context.execution_no_progress_timeout_s:g} s"
                line = f"{what}: no progress for {seconds}; the nodes it needs may not start, see `ray status`"
                raise PlacementError(line) from None
            except RayActorError as error:  # of an error in the creation of an actor, Ray keeps the traceback only
                if refusal := _INPUT_ERROR.search(str(error)):
                    raise InputError(refusal[1]) from None
                raise
