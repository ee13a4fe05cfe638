"""Nodes whose own faults end trials: a full disk, a store out of reach, a GPU whose driver has died.

Such a node is free again at once and would consume a whole queue of trials. After two such ends no trial starts on it
for a while. A fault of several nodes ends the sweep instead.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Literal

log = logging.getLogger(__name__)

ENDS = 2  # trials that may end on a node by its fault before it is left out
AWAY = 900.0  # seconds that it is left out; after these one more such end leaves it out again
PAUSE = 15.0  # seconds after such an end in which nothing starts: some trouble is over by then
UNKNOWN = 3  # such ends of trials whose node is not known, before the trouble is taken to be everywhere
Verdict = Literal["here", "everywhere", "alone"]


class SickNodes:
    """What the ends of trials say of the nodes they ran on, by Ray's ids of nodes.

    alone: whether there is no other node that trials could run on, now or later.
    """

    def __init__(self, alone: Callable[[], bool], *, clock: Callable[[], float] = time.monotonic) -> None:
        self.alone, self.clock = alone, clock
        self._ends = Counter[str]()
        self._last: dict[str, float] = {}
        self._said: dict[str, list[str]] = {}  # by kind of trouble: the nodes that had it since a trial ended well
        self._rested = -PAUSE

    def ill(self, node: str, host: str, kind: str, why: str) -> Verdict:
        """A trial ended by a trouble of its node (`node` is empty where trials ran on nodes that nobody knows).

        everywhere: two different nodes said the same and no trial ended well since; alone: there is no other node.
        """
        if self.alone():
            return "alone"
        now = self._rested = self.clock()
        said = self._said.setdefault(kind, [])
        said.append(node)
        if len({each for each in said if each}) > 1 or said.count("") >= UNKNOWN:
            return "everywhere"
        if node:
            self._ends[node] += 1
            self._last[node] = now
            if self._ends[node] >= ENDS:
                log.warning("no trial starts on node %s for %.0f minutes: %s", host, AWAY / 60, why)
        return "here"

    def well(self, node: str) -> None:
        """A trial ended well on a node."""
        self._said.clear()
        self._ends.pop(node, None)

    def left_out(self) -> list[str]:
        """The nodes that are to start no trial now."""
        now = self.clock()
        return sorted(node for node, ends in self._ends.items() if ends >= ENDS and now - self._last[node] < AWAY)

    def rests(self) -> bool:
        """Whether a trial has just ended so."""
        return self.clock() - self._rested < PAUSE
