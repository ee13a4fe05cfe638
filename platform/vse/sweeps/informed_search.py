"""Searches that learn from trials, and the trials of another sweep to begin with.

A search is rebuilt from the ledger at every call. Its own state is never stored.
"""

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from vse.config import canonical, fingerprint, flatten, override
from vse.errors import InputError
from vse.presets import from_data
from vse.sweeps.ledger import DEFINITION, Entry, FailureKind, Ledger, definition_of, trial_id
from vse.sweeps.plan import SweepPlan, newest, point_of
from vse.sweeps.proposals import Attempts
from vse.sweeps.space import Space, alternatives, at_labels, canonical_point, choices, label, labels_of, leaves
from vse.training.config import identity
from vse.workspace.layout import Workspace

log = logging.getLogger(__name__)

Changes = Mapping[str, Any]
Value = tuple[float, ...]  # one number for each objective, all to be maximised
INFORMED, RANDOM = 10, 300  # new draws for a point that was tried before, as happens in small spaces of choices


def first_draws(samples: int) -> int:
    """Points drawn at random before the first informed one: a third, at most 20.

    The default of HyperOpt is always 20, which makes a short search random.
    """
    return max(1, min(20, samples // 3))


class InformedSearch(ABC):
    """Base of the proposers that learn from trials; a subclass wraps a library's search.

    Point k is drawn with a seed made of (seed, k): a search that runs one trial at a time continues after a kill as it
    would have. Points are entered by label, as positions in lists and values in ranges (`space.labels_of`).

    Args:
        space: What is searched.
        config: The run configuration that points change.
        ledger: Of the sweep.
        trials_of: The trials of a point.
        points: The points of the ledger, in its order.
        value_of: Mean objectives of a point whose trials have all finished; None for others.
        is_pending: Whether a trial with this entry in the ledger is to run.
        samples: Points in all.
        seed: Of the draws.
        num_initial: Points drawn at random before the first informed one; 0: `first_draws`.
        learned: (point, value) from another sweep. The search learns from them; they do not count as points.
        objectives: How many numbers are maximised.
        draw: Whether new points are drawn; if not, only trials of earlier points run.
        check: Raises InputError for a point that nothing can be trained at. Another is drawn instead, and the point is
            kept in `refused`.
    """

    library: ClassVar[str]

    def __init__(
        self,
        space: Space,
        config: Any,
        ledger: Ledger,
        *,
        trials_of: Callable[[Changes], Sequence[dict[str, Any]]],
        points: Iterable[Changes],
        value_of: Callable[[Changes], Value | None],
        is_pending: Callable[[Entry | None], bool],
        samples: int,
        seed: int = 0,
        num_initial: int = 0,
        learned: Iterable[tuple[Changes, Value]] = (),
        objectives: int = 1,
        draw: bool = True,
        check: Callable[[Changes], object] = lambda point: None,
    ) -> None:
        self.check_space(space)
        self.space, self.config, self.ledger = space, config, ledger
        self.trials_of, self.value_of, self.is_pending = trials_of, value_of, is_pending
        self.samples, self.seed, self.draw, self.check = samples, seed, draw, check
        self.refused: dict[str, str] = {}  # by label of a drawn point: why nothing trains at it
        self.num_initial, self.objectives = num_initial or first_draws(samples), objectives
        self._attempts = Attempts()
        self._waiting: deque[dict[str, Any]] = deque()
        self._open: dict[str, tuple[int, Changes]] = {}  # by trial: its point, until the point is settled
        self._begin()
        for point, value in learned:
            self._end(self._enter(self._labels(point)), value, diverged=False)
        self._points: set[str] = set()
        for point in points:
            self._add(point)

    @classmethod
    def check_space(cls, space: Space) -> None:
        """Raise InputError for what the search cannot draw from: grids, and a space of constants."""
        for key, domain in (*space.domains.items(), *leaves(space.domains)):
            if isinstance(domain, dict):
                raise InputError(
                    f"search space {space.where}: {key}: a grid cannot be searched by {cls.library}; use choice"
                )
        if all(alternatives(domain) is None and choices(domain) is not None for domain in space.domains.values()):
            raise InputError(f"search space {space.where}: nothing in it varies")

    @abstractmethod
    def _begin(self) -> None:
        """Start a search of `space` that knows no trial."""

    @abstractmethod
    def _enter(self, labels: Mapping[str, Any]) -> int:
        """Enter a point as one that runs; returns its number in the search."""

    @abstractmethod
    def _end(self, number: int, value: Value | None, *, diverged: bool) -> None:
        """Enter the outcome of a point.

        Args:
            number: of the point.
            value: of the objectives; None if there is none.
            diverged: whether the point has no value because it diverged: the worst outcome, which the search avoids. A
                point without a value for another reason is left out.
        """

    @abstractmethod
    def _suggest(self, seed: int, *, informed: bool) -> Mapping[str, Any]:
        """The labels of a new point.

        Args:
            seed: of the draw.
            informed: whether to learn from the points that have ended, once there are `num_initial` of them.
        """

    @property
    def waiting(self) -> int:
        """Trials of known points that are still to run."""
        return len(self._waiting)

    def propose(self) -> dict[str, Any] | None:
        while not self._waiting and self.draw and len(self._points) < self.samples:
            point = self._next_point()
            if point is None:
                break
            self._add(point)
        return self._waiting.popleft() if self._waiting else None

    def ended(self, entry: Entry, *, final: bool = False) -> bool:
        if entry.state == "failed" and not final and self._attempts.left(entry):
            self._waiting.append(entry.changes)
            return True
        if entry.id in self._open:
            tid, point = self._open.pop(entry.id)
            self._settle(tid, point)
        return False

    def _add(self, point: Changes) -> None:
        """Add a point to the search: its pending trials wait."""
        tid = self._enter(self._labels(point))
        self._points.add(fingerprint(point))
        for changes in self.trials_of(point):
            if self.is_pending(self.ledger.get(changes)):
                self._waiting.append(changes)
                self._open[trial_id(changes)] = (tid, point)
        self._settle(tid, point)

    def _settle(self, tid: int, point: Changes) -> None:
        """Enter the outcome of a point, once none of its trials is open."""
        if any(other == tid for other, _ in self._open.values()):
            return
        value = self.value_of(point)
        self._end(tid, value, diverged=value is None and self._diverged(point))

    def _diverged(self, point: Changes) -> bool:
        entries = [self.ledger.get(changes) for changes in self.trials_of(point)]
        return any(entry is not None and entry.failure == FailureKind.DIVERGED for entry in entries)

    def _next_point(self) -> dict[str, Any] | None:
        """The next initial point, else the search's; None if nothing new can be drawn that would train."""
        for point in self.space.initial:
            changes = canonical_point(self.config, point)
            if fingerprint(changes) not in self._points:
                return changes
        count = len(self._points)
        for again in range(INFORMED + RANDOM):
            digits = fingerprint([self.seed, count, again])
            labels = self._suggest(int(digits, 16) % 2**31, informed=again < INFORMED)
            changes = self._accepted(at_labels(self.space.domains, labels))
            if changes is not None and fingerprint(changes) not in self._points:
                return changes
        return None

    def _accepted(self, drawn: Changes) -> dict[str, Any] | None:
        """A drawn point as the configuration holds it; None if it is refused."""
        try:
            changes = canonical_point(self.config, drawn)
            self.check(changes)
        except InputError as error:
            if label(drawn) not in self.refused:
                self.refused[label(drawn)] = str(error)
                log.warning("drew a new point instead of %s: %s", label(drawn), error)
            return None
        return changes

    def _labels(self, point: Changes) -> dict[str, Any]:
        labels = labels_of(self.space.domains, point)
        assert labels is not None, "points of a search are points of its space"
        return labels


def warm_points(
    plan: SweepPlan, workspace: Workspace, value: Callable[[Sequence[Entry]], Value]
) -> list[tuple[dict[str, Any], Value]]:
    """(point, mean objectives) of the finished points of the sweep `sweep.warm_start` that are in this plan's space.

    Args:
        plan: Of the sweep that learns.
        workspace: With both sweeps.
        value: Of a point, from its finished trials.

    Raises:
        InputError: There is no such sweep, or its runs differ in more than what either sweep searches.
    """
    name, space, base = plan.options.warm_start, plan.space, flatten(identity(plan.config))
    folder = workspace.existing("sweeps", name, "sweep.warm_start")
    definition = definition_of(folder)
    if not isinstance(definition, dict) or not isinstance(definition.get("config", {}), dict):
        raise InputError(f"sweep.warm_start={name}: {folder}/{DEFINITION} is missing or damaged")
    if definition.get("kind") != "objective" or definition.get("objective") != plan.options.objective:
        other = definition.get("objective", "nothing")
        raise InputError(f"sweep.warm_start={name}: maximises {other}, this sweep {plan.options.objective}")

    def fixed(config: Any) -> dict[str, Any]:
        """Settings that this sweep does not search and has otherwise."""
        settings = flatten(config).items()
        return {key: value for key, value in settings if key not in space.keys and base.get(key, value) != value}

    config = from_data(definition.get("config", {}), f"{folder}/{DEFINITION}")
    for key, value in fixed(config).items():
        raise InputError(f"sweep.warm_start={name}: its runs have {key}={value}, these {base.get(key)}")
    points: dict[str, tuple[dict[str, Any], list[Entry]]] = {}
    for entry in newest(Ledger(folder)):
        if not entry.complete or "objective" not in entry.result:
            continue
        searched = point_of(entry.changes)
        trained = override(config, searched)
        settings = flatten(trained)
        completed = {key: canonical(settings[key]) for key in space.keys if key in settings}
        here = next((each for each in (searched, completed) if labels_of(space.domains, each) is not None), None)
        if here is not None and not fixed(trained):
            points.setdefault(fingerprint(here), (here, []))[1].append(entry)
    return [(point, value(entries)) for point, entries in points.values()]
