"""Searching a space by HyperOpt's tree of Parzen estimators (Bergstra et al., NIPS 2011), on top of the ledger.

HyperOpt's own state is never stored: a resumed search enters the ended points of the ledger. Point k is drawn with a
seed made of (search seed, k): a search that runs one trial at a time continues after a kill as it would have.
Alternatives are HyperOpt's own conditional choices. Points are entered in HyperOpt's internal form,
position or value by label, because Tune's wrapper hangs on initial points of such spaces.
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
from vse.sweeps.plan import MATERIAL, SEED, SweepPlan
from vse.sweeps.proposals import Attempts
from vse.sweeps.space import Space, alternatives, at_labels, canonical_point, choices, label, leaves, placements
from vse.sweeps.trial_process import EPOCH, OBJECTIVE
from vse.training.config import RunConfig, identity
from vse.workspace.layout import Workspace

log = logging.getLogger(__name__)

Changes = Mapping[str, Any]
INFORMED, RANDOM = 10, 300  # draws anew where a point was tried before, as happens in small spaces of choices


def check_searchable(space: Space) -> None:
    """Raise InputError for what HyperOpt cannot search: grids, and a space of constants."""
    for key, domain in (*space.domains.items(), *leaves(space.domains)):
        if isinstance(domain, dict):
            raise InputError(f"search space {space.where}: {key}: a grid cannot be searched by HyperOpt; use choice")
    if all(alternatives(domain) is None and choices(domain) is not None for domain in space.domains.values()):
        raise InputError(f"search space {space.where}: nothing in it varies")


def first_draws(samples: int) -> int:
    """Points drawn at random before the first informed one: a third, at most 20 (HyperOpt's default is always 20, which
    makes a short search random)."""
    return max(1, min(20, samples // 3))


class ParzenSearch:
    """A proposer that draws points until there are `samples`, each tried as the trials that `trials_of` makes of it.

    points: those of the ledger, in its order; value_of: mean objective of a point whose trials have all finished, to be
    maximised. told: (point, value) from elsewhere, which HyperOpt learns from and nobody counts. wanted: which trials
    of a point may run. draw: False proposes only what is missing of known points. check: raises InputError for a point
    that nothing could be trained at; another is drawn in its place, and it is kept in `refused`. whole: trials that
    were ended early are missing.
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
        samples: int,
        seed: int = 0,
        num_initial: int = 0,
        told: Iterable[tuple[Changes, float]] = (),
        wanted: Callable[[dict[str, Any]], bool] = lambda changes: True,
        draw: bool = True,
        check: Callable[[Changes], object] = lambda point: None,
        whole: bool = False,
        attempts: int = 2,
    ) -> None:
        check_searchable(space)
        self.space, self.config, self.ledger = space, config, ledger
        self.trials_of, self.value_of, self.wanted, self.draw = trials_of, value_of, wanted, draw
        self.samples, self.seed, self.attempts = samples, seed, Attempts(attempts)
        self.check, self.whole = check, whole
        self.refused: dict[str, str] = {}  # by label of a drawn point: why nothing trains at it
        self.num_initial = num_initial or first_draws(samples)
        self._waiting: deque[dict[str, Any]] = deque()
        self._open: dict[str, tuple[int, Changes]] = {}  # by trial: its point, until that is decided
        self._trials = hyperopt.Trials()
        self._domain = hyperopt.Domain(lambda point: point, _expression(space.domains))
        for point, value in told:
            self._tell(point, value)
        self._points: dict[str, int] = {}
        for point in points:
            self._enter(point)

    @property
    def waiting(self) -> int:
        """Trials of known points that are still to run."""
        return len(self._waiting)

    def propose(self) -> dict[str, Any] | None:
        while not self._waiting and self.draw and len(self._points) < self.samples:
            point = self._next_point()
            if point is None:
                break
            self._enter(point)
        return self._waiting.popleft() if self._waiting else None

    def ended(self, entry: Entry, *, final: bool = False) -> bool:
        if entry.state == "failed" and not final and self.attempts.left(entry):
            self._waiting.append(entry.changes)
            return True
        if entry.id in self._open:
            tid, point = self._open.pop(entry.id)
            self._settle(tid, point)
        return False

    def _enter(self, point: Changes) -> None:
        """A point of the search: what is missing of it waits, and HyperOpt knows it."""
        tid = self._tell(point, None)
        self._points[fingerprint(point)] = tid
        for changes in self.ledger.pending(self.trials_of(point), whole=self.whole):
            if self.wanted(changes):
                self._waiting.append(changes)
                self._open[trial_id(changes)] = (tid, point)
        self._settle(tid, point)

    def _settle(self, tid: int, point: Changes) -> None:
        """Tell HyperOpt what became of a point, once none of its trials is open."""
        if any(other == tid for other, _ in self._open.values()):
            return
        value = self.value_of(point)
        (document,) = (each for each in self._trials._dynamic_trials if each["tid"] == tid)
        document["state"] = hyperopt.JOB_STATE_DONE
        if value is not None:
            document["result"] = {"status": hyperopt.STATUS_OK, "loss": -value}
        elif self._diverged(point):  # the worst there is, and to be kept from
            document["result"] = {"status": hyperopt.STATUS_FAIL}
        else:  # says nothing about the point: HyperOpt leaves it out
            document["state"] = hyperopt.JOB_STATE_ERROR
        self._trials.refresh()

    def _diverged(self, point: Changes) -> bool:
        entries = [self.ledger.get(changes) for changes in self.trials_of(point)]
        return any(entry is not None and entry.failure == FailureKind.DIVERGED for entry in entries)

    def _next_point(self) -> dict[str, Any] | None:
        """The next initial point, else HyperOpt's suggestion; None where nothing new can be drawn that would train."""
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
        """A drawn point as the configuration holds it; None where it is refused."""
        try:
            changes = canonical_point(self.config, drawn)
            self.check(changes)
        except InputError as error:
            if label(drawn) not in self.refused:
                self.refused[label(drawn)] = str(error)
                log.warning("drew a new point instead of %s: %s", label(drawn), error)
            return None
        return changes

    def _tell(self, point: Changes, value: float | None) -> int:
        """Enter a point among HyperOpt's trials, with its value or as one that still runs; its number there."""
        labels = next(placements(self.space.domains, point))
        tid = len(self._trials._dynamic_trials)
        held = {name: [labels[name]] if name in labels else [] for name in self._domain.params}
        misc = {
            "tid": tid,
            "cmd": self._domain.cmd,
            "workdir": None,
            "idxs": {name: [tid] if values else [] for name, values in held.items()},
            "vals": held,
        }
        result = {"status": hyperopt.STATUS_NEW} if value is None else {"status": hyperopt.STATUS_OK, "loss": -value}
        (document,) = self._trials.new_trial_docs([tid], [None], [result], [misc])
        document["state"] = hyperopt.JOB_STATE_NEW if value is None else hyperopt.JOB_STATE_DONE
        self._trials.insert_trial_docs([document])
        self._trials.refresh()
        return tid


def _expression(domains: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The space as HyperOpt's expression, with labels as in `space.placements`; constants are left out."""
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


@dataclass(frozen=True, slots=True)
class _Told:
    """The part of a trial that the scheduler reads."""

    trial_id: str


class _Halving(ASHAScheduler):
    """Identifies a trial by its changes. Tune numbers attempts: a trial that is retried, as after its node was lost,
    would stand at every rung once per attempt, and a good one would end all others."""

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        super().on_trial_add(tune_controller, _tried(trial))

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        return super().on_trial_result(tune_controller, _tried(trial), result)

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        super().on_trial_complete(tune_controller, _tried(trial), result)

    def on_trial_remove(self, tune_controller: Any, trial: Any) -> None:
        super().on_trial_remove(tune_controller, _tried(trial))


def _tried(trial: Any) -> Any:
    return trial if isinstance(trial, _Told) else _Told(trial_id(trial.config["changes"]))


def halving(epochs: int, grace: int, factor: float, entries: Iterable[Entry]) -> ASHAScheduler:
    """A scheduler with rungs at grace, grace * factor, ... epochs that knows the finished trials of the ledger."""
    scheduler = _Halving(
        time_attr=EPOCH, metric=OBJECTIVE, mode="max", max_t=epochs, grace_period=grace, reduction_factor=factor
    )
    for entry in entries:
        curve = entry.result.get("curve")
        if entry.state == "finished" and curve:
            _tell(scheduler, entry.id, curve if entry.stopped else curve[:-1])
    return scheduler


def _tell(scheduler: ASHAScheduler, name: str, curve: list[float]) -> None:
    trial: Any = _Told(name)
    nobody: Any = None  # no controller: nothing runs
    scheduler.on_trial_add(nobody, trial)
    for epoch, value in enumerate(curve, start=1):
        scheduler.on_trial_result(nobody, trial, {EPOCH: epoch, OBJECTIVE: value})


def warm_points(plan: SweepPlan, workspace: Workspace) -> list[tuple[dict[str, Any], float]]:
    """(point, value) of the finished points of another sweep that lie in this one's space.

    Raises InputError where there is no such sweep, or its runs differ in more than what either sweep searches.
    """
    name = plan.options.warm_start
    folder = workspace.existing("sweeps", name, "sweep.warm_start")
    theirs = definition_of(folder)
    if not isinstance(theirs, dict) or not isinstance(theirs.get("config", {}), dict):
        raise InputError(f"sweep.warm_start={name}: {folder}/{DEFINITION} is missing or damaged")
    if theirs.get("kind") != "objective" or theirs.get("objective") != plan.options.objective:
        found = theirs.get("objective", "nothing")
        raise InputError(f"sweep.warm_start={name}: maximises {found}, this sweep {plan.options.objective}")
    base = flatten(identity(plan.config))
    other = from_data(theirs.get("config", {}), f"{folder}/{DEFINITION}")
    for key, value in flatten(other).items():
        if key not in plan.space.keys and base.get(key, value) != value:
            raise InputError(f"sweep.warm_start={name}: its runs have {key}={value}, these {base.get(key)}")
    values: dict[str, list[float]] = {}
    points: dict[str, dict[str, Any]] = {}
    for entry in Ledger(folder):
        if entry.state == "finished" and not entry.stopped and "objective" in entry.result:
            point = _here(plan, other, {k: v for k, v in entry.changes.items() if k not in (SEED, MATERIAL)})
            if point is not None:
                points.setdefault(fingerprint(point), point)
                values.setdefault(fingerprint(point), []).append(entry.result["objective"])
    return [(points[key], sum(found) / len(found)) for key, found in values.items()]


def _here(plan: SweepPlan, other: RunConfig, point: dict[str, Any]) -> dict[str, Any] | None:
    """A point of another sweep as one of this space, completed by that sweep's own configuration; None outside it, or
    where that sweep searched something that is fixed here and not so."""
    space, base = plan.space, flatten(identity(plan.config))
    whole = flatten(override(other, point))
    if any(base.get(key, value) != value for key, value in whole.items() if key not in space.keys):
        return None
    for changes in (point, {key: canonical(whole[key]) for key in space.keys if key in whole}):
        if any(True for _ in placements(space.domains, changes)):
            return changes
    return None
