"""Nodes that are missing or at fault: trials that wait for resources, and nodes whose own faults end trials."""

import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

import ray
from ray.tune.experiment import Trial
from ray.util import placement_group_table

from vse.cluster.capacity import living
from vse.cluster.ray_private import remove_orphaned_placement_groups
from vse.cluster.runtime import placement_seconds
from vse.errors import PlacementError

log = logging.getLogger(__name__)

ENDS = 2  # faults of a node before it is left out
AWAY = 900.0  # seconds that it is left out; after these, one more fault leaves it out again
PAUSE = 15.0  # seconds after a fault in which nothing starts: some faults are over by then
UNKNOWN = 3  # faults of unknown nodes before the fault is taken to be everywhere
Verdict = Literal["here", "everywhere", "alone"]


class SickNodes:
    """Finds nodes whose own faults end trials: a full disk, a store out of reach, a GPU whose driver has died.

    Such a node is free again at once and would consume a whole queue of trials. After two faults, no trial starts on it
    for a while. A fault of several nodes ends the sweep instead.

    Args:
        alone: Whether there is no other node that trials could run on, now or later.
        clock: Seconds.
    """

    def __init__(self, alone: Callable[[], bool], *, clock: Callable[[], float] = time.monotonic) -> None:
        self.alone, self.clock = alone, clock
        self._ends = Counter[str]()
        self._last: dict[str, float] = {}
        # By kind of fault: when nodes had it since a trial ended well. Faults that lie further apart have other causes.
        self._faults: dict[str, list[tuple[float, str]]] = {}
        self._rested = -PAUSE

    def ill(self, node: str, host: str, kind: str, why: str) -> Verdict:
        """Count a trial that a fault of its node ended.

        Args:
            node: Ray's id of the node; empty if it is unknown.
            host: Its name, for the log.
            kind: The kind of fault.
            why: The message of the fault.

        Returns:
            "here" if the node alone is at fault. "everywhere" if two nodes had the fault within `AWAY` seconds
            and no trial ended well in between. "alone" if there is no other node.
        """
        if self.alone():
            return "alone"
        now = self._rested = self.clock()
        faults = [(when, each) for when, each in self._faults.get(kind, ()) if now - when < AWAY]
        self._faults[kind] = [*faults, (now, node)]
        nodes = [each for _, each in self._faults[kind]]
        if len({each for each in nodes if each}) > 1 or nodes.count("") >= UNKNOWN:
            return "everywhere"
        if node:
            self._ends[node] += 1
            self._last[node] = now
            if self._ends[node] >= ENDS:
                log.warning("no trial starts on node %s for %.0f minutes: %s", host, AWAY / 60, why)
        return "here"

    def well(self, node: str) -> None:
        """Count a trial that ended well on a node."""
        self._faults.clear()
        self._ends.pop(node, None)

    def left_out(self) -> list[str]:
        """The nodes on which no trial starts now."""
        now = self.clock()
        return sorted(node for node, ends in self._ends.items() if ends >= ENDS and now - self._last[node] < AWAY)

    def rests(self) -> bool:
        """Whether a fault was less than `PAUSE` seconds ago."""
        return self.clock() - self._rested < PAUSE


EVERY = 2.0  # seconds between looks at the nodes
FIRST = 60.0  # seconds to the first warning; each next one comes after twice as long


def trainings_without_resources() -> int:
    """How many trainings of this job wait for resources of their workers, by Ray's pending placement groups.

    Ray Train requests all workers of a training at once. Groups of one bundle belong to trials themselves. The id of a
    group ends with the id of its job.
    """
    job = ray.get_runtime_context().get_job_id()
    groups = placement_group_table().items()
    return sum(g["state"] == "PENDING" and len(g["bundles"]) > 1 and name.endswith(job) for name, g in groups)


class _Wait:
    """How long a condition has held, and when to warn of it: after `first` seconds, then at doubling intervals."""

    def __init__(self, first: float) -> None:
        self.first = first
        self._since: float | None = None
        self._warned = 0.0

    def due(self, holds: bool, now: float) -> float:
        """The seconds to warn of; 0 for no warning now."""
        self._since = (now if self._since is None else self._since) if holds else None
        if self._since is None:
            self._warned = 0.0
        elif now - self._since >= (2 * self._warned or self.first):
            self._warned = now - self._since
            return self._warned
        return 0.0


class ResourceWatch:
    """Warns while trials wait for resources, and ends a sweep if no trial can run.

    Tune waits forever for a node that an autoscaler never gets: a cloud may have no more of its kind, an account no
    quota, or spot instances may be reclaimed as soon as they join.

    Args:
        resources: CPU and GPU of one node for a trial's own process.
        nested: Whether trials start workers, which need resources too.
        deadline: `look` raises after so many seconds in which no trial ran and no node was up that could hold one. By
            default, as long as workers of a training wait. A node that other jobs use counts as one that could.
        clock: Seconds.
        nodes: Nodes as Ray lists them.
        without_resources: How many trainings wait for resources of their workers.
        release: Releases resources of killed trials.
    """

    def __init__(
        self,
        resources: Mapping[str, float],
        *,
        nested: bool = False,
        deadline: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        nodes: Callable[[], Sequence[Mapping[str, Any]]] = ray.nodes,
        without_resources: Callable[[], int] = trainings_without_resources,
        release: Callable[[], object] = remove_orphaned_placement_groups,
    ) -> None:
        self.resources, self.nested, self.clock, self.nodes = dict(resources), nested, clock, nodes
        self.without_resources, self.release = without_resources, release
        self.deadline = placement_seconds() if deadline is None else deadline
        self._looked = self._moved = clock()
        self._none: float | None = None  # since when no node could hold a trial
        first = min(FIRST, self.deadline / 2)
        self._short, self._workers = _Wait(first), _Wait(first)  # of trials, and of workers of running trials
        self._without = set[str]()  # trials whose workers got no resources since a trial has moved
        self._longest = 0.0  # seconds that workers have waited in vain

    def moved(self) -> None:
        """Note that a trial has reported an epoch, or has ended well."""
        self._moved = self.clock()
        self._without.clear()

    def stands(self, trial: str, waited: float, others: Mapping[str, float]) -> bool:
        """Whether no trial can run, now that the workers of one got no resources.

        A silent running trial may be in a long epoch. It has its resources if its own wait would have ended by now, and
        it may have them if it has not ended for lack of resources yet. Trials that began much later do not count.

        Args:
            trial: The trial whose workers got no resources.
            waited: Seconds that they waited.
            others: Seconds of the other running trials.
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
        """Look at Tune's states of trials.

        Args:
            states: Of all trials that wait or run; others do not count.
            avoided: Ids of the nodes that all waiting trials avoid.

        Raises:
            PlacementError: No trial has run for too long, and no node could hold one.
        """
        now = self.clock()
        if now - self._looked < EVERY:
            return
        self._looked, count = now, Counter(states)
        waiting, running = count[Trial.PENDING], count[Trial.RUNNING]
        if self.nested:
            self._look_at_workers(now, running)
        if not waiting:
            self._none = None
            self._short.due(False, now)
            return
        nodes = living([node for node in self.nodes() if node.get("NodeID") not in avoided])
        room = nodes.room(self.resources.get("CPU", 0.0), self.resources.get("GPU", 0.0))
        self._none = (now if self._none is None else self._none) if not room and not running else None
        total = nodes.total()
        has = f"the cluster has {total['CPU']:g} CPUs and {total['GPU']:g} GPUs on {nodes.nodes} nodes"
        asks = f"{self.resources.get('CPU', 0.0):g} CPUs and {self.resources.get('GPU', 0.0):g} GPUs of one node"
        if self._none is not None and now - self._none >= self.deadline:
            raise PlacementError(
                f"no node that can hold a trial started within {self.deadline:g} s: each trial needs {asks}, {waiting} "
                f"are waiting, {has}; see `ray status`"
            )
        if seconds := self._short.due(room <= running or not running, now):
            ends = "" if self._none is None else f"; the sweep ends after {self.deadline:g} s without any"
            line = "%d trials have been waiting %.0f s for resources: each needs %s, %d run, %s%s"
            log.warning(line, waiting, seconds, asks, running, has, ends)

    def _look_at_workers(self, now: float, running: int) -> None:
        """Release resources of killed trials, and warn of workers that wait. Their trials give up by themselves."""
        self.release()
        without = self.without_resources() if running else 0
        if seconds := self._workers.due(without > 0, now):
            line = "%d of %d running trials have been waiting %.0f s for worker resources; see `ray status`"
            log.warning(line, without, running, seconds)
