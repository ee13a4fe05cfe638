"""Methods of `sweep.method` that learn from trials: HyperOpt's search with its warm start, and successive halving.

Both are rebuilt from the ledger at every call. Their own state is never stored.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import hyperopt
from hyperopt import tpe
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search.hyperopt import HyperOptSearch

from vse.config import canonical, fingerprint, flatten, override
from vse.errors import InputError
from vse.presets import from_data
from vse.sweeps.ledger import DEFINITION, Entry, FailureKind, Ledger, definition_of, trial_id
from vse.sweeps.plan import SweepPlan, point_of
from vse.sweeps.proposals import Attempts
from vse.sweeps.space import Space, alternatives, at_labels, canonical_point, choices, label, labels_of, leaves
from vse.sweeps.trial_process import EPOCH, OBJECTIVE
from vse.training.config import identity
from vse.workspace.layout import Workspace

log = logging.getLogger(__name__)

Changes = Mapping[str, Any]
INFORMED, RANDOM = 10, 300  # new draws for a point that was tried before, as happens in small spaces of choices


def check_searchable(space: Space) -> None:
    """Raise InputError for what HyperOpt cannot search: grids, and a space of constants."""
    for key, domain in (*space.domains.items(), *leaves(space.domains)):
        if isinstance(domain, dict):
            raise InputError(f"search space {space.where}: {key}: a grid cannot be searched by HyperOpt; use choice")
    if all(alternatives(domain) is None and choices(domain) is not None for domain in space.domains.values()):
        raise InputError(f"search space {space.where}: nothing in it varies")


def first_draws(samples: int) -> int:
    """Points drawn at random before the first informed one: a third, at most 20.

    HyperOpt's default is always 20, which makes a short search random.
    """
    return max(1, min(20, samples // 3))


class ParzenSearch:
    """A proposer by HyperOpt's tree of Parzen estimators (Bergstra et al., NIPS 2011).

    Point k is drawn with a seed made of (seed, k): a search that runs one trial at a time continues after a kill as it
    would have. Points are entered in HyperOpt's internal form, position or value by label, because Tune's wrapper hangs
    on initial points of conditional spaces.

    Args:
        space: What is searched.
        config: The run configuration that points change.
        ledger: Of the sweep.
        trials_of: The trials of a point.
        points: The points of the ledger, in its order.
        value_of: Mean objective of a point whose trials have all finished, to be maximised; None for others.
        is_pending: Whether a trial with this entry in the ledger is to run.
        samples: Points in all.
        seed: Of the draws.
        num_initial: Points drawn at random before the first informed one; 0: `first_draws`.
        learned: (point, value) from another sweep. HyperOpt learns from them; they do not count as points.
        draw: Whether new points are drawn; if not, only trials of earlier points run.
        check: Raises InputError for a point that nothing can be trained at. Another is drawn instead, and the point is
            kept in `refused`.
    """

    def __init__(
        self,
        space: Space,
        config: Any,
        ledger: Ledger,
        *,
        trials_of: Callable[[Changes], Sequence[dict[str, Any]]],
        points: Iterable[Changes],
        value_of: Callable[[Changes], float | None],
        is_pending: Callable[[Entry | None], bool],
        samples: int,
        seed: int = 0,
        num_initial: int = 0,
        learned: Iterable[tuple[Changes, float]] = (),
        draw: bool = True,
        check: Callable[[Changes], object] = lambda point: None,
    ) -> None:
        check_searchable(space)
        self.space, self.config, self.ledger = space, config, ledger
        self.trials_of, self.value_of, self.is_pending = trials_of, value_of, is_pending
        self.samples, self.seed, self.draw, self.check = samples, seed, draw, check
        self.refused: dict[str, str] = {}  # by label of a drawn point: why nothing trains at it
        self.num_initial = num_initial or first_draws(samples)
        self._attempts = Attempts()
        self._waiting: deque[dict[str, Any]] = deque()
        self._open: dict[str, tuple[int, Changes]] = {}  # by trial: its point, until the point is settled
        self._trials = hyperopt.Trials()
        self._domain = hyperopt.Domain(lambda point: point, _expression(space.domains))
        for point, value in learned:
            self._enter(point, value)
        self._points: set[str] = set()
        for point in points:
            self._add(point)

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
        """Add a point to the search: its pending trials wait, and HyperOpt knows it."""
        tid = self._enter(point, None)
        self._points.add(fingerprint(point))
        for changes in self.trials_of(point):
            if self.is_pending(self.ledger.get(changes)):
                self._waiting.append(changes)
                self._open[trial_id(changes)] = (tid, point)
        self._settle(tid, point)

    def _settle(self, tid: int, point: Changes) -> None:
        """Give HyperOpt the outcome of a point, once none of its trials is open."""
        if any(other == tid for other, _ in self._open.values()):
            return
        value = self.value_of(point)
        (document,) = (each for each in self._trials._dynamic_trials if each["tid"] == tid)
        document["state"] = hyperopt.JOB_STATE_DONE
        if value is not None:
            document["result"] = {"status": hyperopt.STATUS_OK, "loss": -value}
        elif self._diverged(point):  # the worst outcome: HyperOpt avoids such points
            document["result"] = {"status": hyperopt.STATUS_FAIL}
        else:  # says nothing about the point: HyperOpt leaves it out
            document["state"] = hyperopt.JOB_STATE_ERROR
        self._trials.refresh()

    def _diverged(self, point: Changes) -> bool:
        entries = [self.ledger.get(changes) for changes in self.trials_of(point)]
        return any(entry is not None and entry.failure == FailureKind.DIVERGED for entry in entries)

    def _next_point(self) -> dict[str, Any] | None:
        """The next initial point, else HyperOpt's suggestion; None if nothing new can be drawn that would train."""
        for point in self.space.initial:
            changes = canonical_point(self.config, point)
            if fingerprint(changes) not in self._points:
                return changes
        count = len(self._points)
        for again in range(INFORMED + RANDOM):
            digits = fingerprint([self.seed, count, again])
            (document,) = tpe.suggest(
                [len(self._trials._dynamic_trials)],
                self._domain,
                self._trials,
                int(digits, 16) % 2**31,
                n_startup_jobs=self.num_initial if again < INFORMED else 10**9,
                verbose=False,
            )
            labels = {label: values[0] for label, values in document["misc"]["vals"].items() if values}
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

    def _enter(self, point: Changes, value: float | None) -> int:
        """Enter a point among HyperOpt's trials, with its value or as one that still runs; returns its number there."""
        labels = labels_of(self.space.domains, point)
        assert labels is not None, "points of a search are points of its space"
        tid = len(self._trials._dynamic_trials)
        values = {name: [labels[name]] if name in labels else [] for name in self._domain.params}
        misc = {
            "tid": tid,
            "cmd": self._domain.cmd,
            "workdir": None,
            "idxs": {name: [tid] if each else [] for name, each in values.items()},
            "vals": values,
        }
        result = {"status": hyperopt.STATUS_NEW} if value is None else {"status": hyperopt.STATUS_OK, "loss": -value}
        (document,) = self._trials.new_trial_docs([tid], [None], [result], [misc])
        document["state"] = hyperopt.JOB_STATE_NEW if value is None else hyperopt.JOB_STATE_DONE
        self._trials.insert_trial_docs([document])
        self._trials.refresh()
        return tid


def _expression(domains: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The space as HyperOpt's expression, with the labels of `space.labels_of`; constants are left out."""
    built: dict[str, Any] = {}
    for key, domain in domains.items():
        name, inner = f"{prefix}{key}", alternatives(domain)
        if inner is not None:
            options = [{"taken": k, **_expression(each, f"{name}/{k}/")} for k, each in enumerate(inner)]
            built[name] = hyperopt.hp.choice(name, options)
        elif hasattr(domain, "categories"):
            built[name] = hyperopt.hp.choice(name, list(range(len(domain.categories))))
        elif choices(domain) is None:
            built[name] = HyperOptSearch.convert_search_space({name: domain})[name]
    return built


def warm_points(plan: SweepPlan, workspace: Workspace) -> list[tuple[dict[str, Any], float]]:
    """(point, mean objective) of the finished points of the sweep `sweep.warm_start` that are in this plan's space.

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
    points: dict[str, tuple[dict[str, Any], list[float]]] = {}
    for entry in Ledger(folder):
        if not entry.complete or "objective" not in entry.result:
            continue
        searched = point_of(entry.changes)
        trained = override(config, searched)
        settings = flatten(trained)
        completed = {key: canonical(settings[key]) for key in space.keys if key in settings}
        here = next((each for each in (searched, completed) if labels_of(space.domains, each) is not None), None)
        if here is not None and not fixed(trained):
            points.setdefault(fingerprint(here), (here, []))[1].append(entry.result["objective"])
    return [(point, sum(values) / len(values)) for point, values in points.values()]


@dataclass(frozen=True, slots=True)
class _TrialStub:
    """The part of a trial that Tune's scheduler reads."""

    trial_id: str


class _Halving(ASHAScheduler):
    """Identifies a trial by its changes.

    Tune numbers attempts. A trial that is retried, for example after its node was lost, would be at every rung once for
    each attempt, and a good one would end all others.
    """

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        super().on_trial_add(tune_controller, _stub(trial))

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        return super().on_trial_result(tune_controller, _stub(trial), result)

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        super().on_trial_complete(tune_controller, _stub(trial), result)

    def on_trial_remove(self, tune_controller: Any, trial: Any) -> None:
        super().on_trial_remove(tune_controller, _stub(trial))


def _stub(trial: Any) -> Any:
    return trial if isinstance(trial, _TrialStub) else _TrialStub(trial_id(trial.config["changes"]))


def halving(epochs: int, grace: int, factor: float, entries: Iterable[Entry]) -> ASHAScheduler:
    """A scheduler for asynchronous successive halving (Li et al., MLSys 2020): trials that are behind at a rung end.

    Tune's scheduler keeps its rungs in memory. They are rebuilt from the curves in the ledger.

    Args:
        epochs: Of a whole trial.
        grace: Epochs to the first rung.
        factor: Rungs are at grace, grace * factor, ... epochs; one trial in this many continues from a rung.
        entries: Of the ledger.
    """
    scheduler = _Halving(
        time_attr=EPOCH, metric=OBJECTIVE, mode="max", max_t=epochs, grace_period=grace, reduction_factor=factor
    )
    controller: Any = None  # nothing runs yet
    for entry in entries:
        curve = entry.result.get("curve")
        if entry.state == "finished" and curve:
            trial: Any = _TrialStub(entry.id)
            scheduler.on_trial_add(controller, trial)
            for epoch, value in enumerate(curve if entry.stopped else curve[:-1], start=1):
                scheduler.on_trial_result(controller, trial, {EPOCH: epoch, OBJECTIVE: value})
    return scheduler
