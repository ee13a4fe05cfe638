"""What stages ask of Ray Data: silence, limits, and an end where nothing moves."""

import pytest
import ray.data
from ray.data.exceptions import ExecutionTimeoutError
from ray.exceptions import ActorDiedError, RayTaskError

from vse.cluster.ray_data import ACTOR_CPUS, TASK_CPUS, data_work
from vse.errors import InputError, PlacementError

# Ray Data fills its context field by field, its own deprecated ones among them
pytestmark = pytest.mark.filterwarnings(r"ignore:`use_\w+` is deprecated:DeprecationWarning")


def test_work_that_does_not_move_ends_in_one_line() -> None:
    """Ray Data's own error is a page, half an hour after the last sign of life."""
    context = ray.data.DataContext.get_current()
    context.execution_no_progress_timeout_s, before = 900, context.execution_no_progress_timeout_s
    try:
        with pytest.raises(PlacementError) as told, data_work("extraction"):
            raise ExecutionTimeoutError("no progress\non 3 operators")
    finally:
        context.execution_no_progress_timeout_s = before
    assert str(told.value).startswith("extraction: no progress for 900 s; the nodes it needs may not start")
    assert "\n" not in str(told.value)


def died(text: str) -> ActorDiedError:
    """What Ray raises for an error in the creation of an actor: a traceback without the exception itself."""
    return ActorDiedError(RayTaskError("__init__", f"Traceback (most recent call last):\n  a line\n{text}", None))


def test_wrong_input_in_the_creation_of_an_actor_ends_in_one_line() -> None:
    with pytest.raises(InputError) as raised, data_work("extraction"):
        raise died("vse.errors.InputError: extraction: torch finds no GPU on node7")
    assert str(raised.value) == "extraction: torch finds no GPU on node7"
    with pytest.raises(ActorDiedError), data_work("extraction"):
        raise died("KeyError: 'vse.errors.InputError: no'")


def test_limits_and_silence_are_those_of_the_work_alone() -> None:
    context = ray.data.DataContext.get_current()
    before = context.enable_progress_bars, context.execution_options.resource_limits
    with data_work("extraction", gpu=3):
        inside = ray.data.DataContext.get_current()
        assert inside.execution_options.resource_limits.gpu == 3
        assert not inside.enable_progress_bars
    after = ray.data.DataContext.get_current()
    assert (after.enable_progress_bars, after.execution_options.resource_limits) == before


def test_an_actor_leaves_room_for_what_feeds_it_on_any_host() -> None:
    """Actors that fill all cores starve it, and Ray Data waits (ray-project/ray#44687)."""
    assert ACTOR_CPUS + TASK_CPUS <= 1
