"""Trials that wait for a place. Tune waits forever for a node that an autoscaler never gets, as when a cloud has no
more of its kind, an account has no quota, or spot instances are reclaimed as soon as they come."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import ray
from ray.tune.experiment import Trial
from ray.util import placement_group_table

from vse.cluster.capacity import living
from vse.cluster.ray_private import remove_orphaned_placement_groups
from vse.cluster.runtime import placement_seconds
from vse.errors import PlacementError

log = logging.getLogger(__name__)

EVERY = 2.0  # seconds between looks at the nodes
FIRST = 60.0  # seconds to the first warning; each next one comes after twice as long


def trainings_without_place() -> int:
    """How many trainings of this job wait for places for their workers, which Ray Train asks for all at once. Groups of
    one place are trials' own; the id of a group ends with that of its job."""
    job = ray.get_runtime_context().get_job_id()
    groups = placement_group_table().items()
    return sum(g["state"] == "PENDING" and len(g["bundles"]) > 1 and name.endswith(job) for name, g in groups)


class _Wait:
    """For how long something has been so, and when that is to be told: after `first` seconds, then at doubling ones."""

    def __init__(self, first: float) -> None:
        self.first = first
        self._since: float | None = None
        self._told = 0.0

    def due(self, so: bool, now: float) -> float:
        """The seconds to tell of; 0 where nothing is to be told now."""
        self._since = (now if self._since is None else self._since) if so else None
        if self._since is None:
            self._told = 0.0
        elif now - self._since >= (2 * self._told or self.first):
            self._told = now - self._since
            return self._told
        return 0.0


class Waiting:
    """Of trials whose own process takes `asked`, CPU and GPU of one node; `nested`: and which start workers of their
    own, that have to find places too.

    Warns while trials wait. Where none runs and no node that is up could hold one, that ends after `deadline` seconds
    (as long as workers of a training wait for their places); nodes that others use are waited for.
    """

    def __init__(
        self,
        asked: Mapping[str, float],
        *,
        nested: bool = False,
        deadline: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        nodes: Callable[[], Sequence[Mapping[str, Any]]] = ray.nodes,
        without_place: Callable[[], int] = trainings_without_place,
        give_back: Callable[[], object] = remove_orphaned_placement_groups,
    ) -> None:
        self.asked, self.nested, self.clock, self.nodes = dict(asked), nested, clock, nodes
        self.without_place, self.give_back = without_place, give_back
        self.deadline = placement_seconds() if deadline is None else deadline
        self._looked = self._moved = clock()
        self._none: float | None = None  # since when there is no place for any
        first = min(FIRST, self.deadline / 2)
        self._short, self._workers = _Wait(first), _Wait(first)  # trials, and workers of those that run, without places
        self._without = set[str]()  # trials whose workers had no place since one has moved
        self._longest = 0.0  # seconds that workers have waited for a place in vain

    def moved(self) -> None:
        """A trial has told of work that it did, or has ended well."""
        self._moved = self.clock()
        self._without.clear()

    def stands(self, trial: str, waited: float, others: Mapping[str, float]) -> bool:
        """Whether no trial can run, now that the workers of one had no place in so many seconds.

        others: running trials, and for how many seconds each. One that says nothing may be in a long epoch: it has its
        place if its own wait would have ended by now, and may have one if it has not ended so yet. Those that began
        much later say nothing.
        """
        self._without.add(trial)
        self._longest = max(self._longest, waited)
        if self.clock() - self._moved < self.deadline:
            return False
        return not any(
            seconds > self._longest or (other not in self._without and seconds > waited / 2)
            for other, seconds in others.items()
        )

    def look(self, states: Iterable[str], avoided: Collection[str] = ()) -> None:
        """At Tune's states of all trials. Raises PlacementError once none has had a place for too long.

        avoided: ids of the nodes that all waiting trials keep from, which are no places for them.
        """
        now = self.clock()
        if now - self._looked < EVERY:
            return
        self._looked, known = now, Counter(states)
        waiting, running = known[Trial.PENDING], known[Trial.RUNNING]
        if self.nested:
            self._look_at_workers(now, running)
        if not waiting:
            self._none = None
            self._short.due(False, now)
            return
        nodes = living([node for node in self.nodes() if node.get("NodeID") not in avoided])
        places = nodes.room(self.asked.get("CPU", 0.0), self.asked.get("GPU", 0.0))
        self._none = (now if self._none is None else self._none) if not places and not running else None
        total = nodes.total()
        has = f"the cluster has {total['CPU']:g} CPUs and {total['GPU']:g} GPUs on {nodes.nodes} nodes"
        asks = f"{self.asked.get('CPU', 0.0):g} CPUs and {self.asked.get('GPU', 0.0):g} GPUs of one node"
        if self._none is not None and now - self._none >= self.deadline:
            raise PlacementError(
                f"no node came in {self.deadline:g} s that could hold a trial: each needs {asks}, {waiting} wait, "
                f"{has}; see `ray status`"
            )
        if seconds := self._short.due(places <= running or not running, now):
            ends = "" if self._none is None else f"; the sweep ends after {self.deadline:g} s without any"
            line = "%d trials have waited %.0f s for a place: each needs %s, %d run, %s%s"
            log.warning(line, waiting, seconds, asks, running, has, ends)

    def _look_at_workers(self, now: float, running: int) -> None:
        """Their own trials give up after `deadline` seconds. What killed trials left goes to those that wait."""
        self.give_back()
        without = self.without_place() if running else 0
        if seconds := self._workers.due(without > 0, now):
            line = "the workers of %d of %d running trials have had no places for %.0f s; see `ray status`"
            log.warning(line, without, running, seconds)
