"""What a request for a sweep of trainings means, decided before anything runs, so that wrong input costs nothing."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vse import registry
from vse.cli.command import Request
from vse.cluster.runtime import Config as RayConfig
from vse.config import canonical, fingerprint, flatten, knob, override, to_dict
from vse.errors import InputError
from vse.stages.pipeline import check
from vse.sweeps.caps import Budget, Caps
from vse.sweeps.frame import need_of
from vse.sweeps.ledger import DEFINITION, Entry, Ledger, definition_of, stem
from vse.sweeps.need import Need
from vse.sweeps.objective_trials import MATERIAL, OBJECTIVES, SEED
from vse.sweeps.search import check_searchable
from vse.sweeps.space import Space, canonical_point, check_space, expand, label, load_space, placements
from vse.training.compatibility import check_objective, family_inputs
from vse.training.config import RunConfig, identity
from vse.workspace.layout import Workspace

METHODS = ("grid", "random", "hyperopt", "asha")
RUNS = ("all", "new", "failed")
RESERVED = ("train.workers", "train.threads", "train.gpus_per_worker")


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepOptions(Caps):
    """What to sweep and how, beside the run configuration."""

    name: str = knob("", "name of the sweep, for one space and configuration; empty: <space>-<preset>")
    space: str = knob("", "module of search_spaces, or a .py file")
    method: str = knob(
        "grid",
        "grid: all that is listed; random; hyperopt: tree of Parzen estimators; asha: random, the worse ended early",
        choices=METHODS,
    )
    samples: int = knob(20, "random, hyperopt, asha: points to draw, initial ones included", low=1)
    seeds: tuple[int, ...] = knob((0,), "seeds; every point is trained once with each", low=0)
    search_seed: int = knob(0, "seed of the draws", low=0)
    first: int = knob(0, "hyperopt: random points before the first informed one; 0: a third, at most 20", low=0)
    grace: int = knob(0, "asha: epochs before a trial may be ended; 0: a ninth of them", low=0)
    reduction: float = knob(3.0, "asha: one trial in this many continues from a rung to the next", above=1)
    objective: str = knob("rsum", "what is maximised, on validation", choices=tuple(OBJECTIVES))
    concurrency: int = knob(0, "trials side by side; 0: one per core, or as many as the cluster has room for", low=0)
    run: str = knob("all", "all: unfinished trials; new: all but failed ones; failed: only those", choices=RUNS)
    warm_start: str = knob(
        "", "hyperopt: finished sweep below sweeps/ to learn from, with runs configured alike otherwise"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """Keys of the job."""

    sweep: SweepOptions = field(default_factory=SweepOptions)
    ray: RayConfig = field(default_factory=RayConfig)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """Everything that is decided before the first trial. `listed` are the points of all methods but hyperopt's."""

    name: str
    named: bool
    config: RunConfig
    space: Space
    options: SweepOptions
    listed: tuple[dict[str, Any], ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        """Every point is trained once with each."""
        return self.options.seeds

    @property
    def question(self) -> str:
        """What is asked, as a sentence."""
        family, source = registry.name_of("family", self.config.model), registry.name_of("source", self.config.data)
        seeds = f"{len(self.seeds)} seed{'s' if len(self.seeds) > 1 else ''} ({', '.join(map(str, self.seeds))})"
        count = self.options.samples if self.options.method == "hyperopt" else len(self.listed)
        return (
            f"Which {', '.join(self.space.keys)} are best for {family} on {source}? {count} points "
            f"({self.options.method}), each trained with {seeds}."
        )

    @property
    def rule(self) -> str:
        """How the best point is chosen, as a sentence; it is written down with the sweep before any result."""
        return (
            f"The best point has the highest mean over seeds of the objective: {OBJECTIVES[self.options.objective]}. "
            "Only points whose trials have all finished count; ties go to the earlier point."
        )

    def definition(self) -> dict[str, Any]:
        """What the sweep's name stands for: what is searched, not how. More points or seeds, or another method, extend
        a sweep and do not make it another."""
        return canonical(
            {
                "kind": "objective",
                "space": self.space.describe(),
                "objective": self.options.objective,
                "rule": self.rule,
                "config": to_dict(identity(self.config)),
            }
        )

    @property
    def whole(self) -> bool:
        """Whether trials that asha ended early go on to their end."""
        return self.options.method != "asha"

    @property
    def beside_training(self) -> str:
        """What takes time in a trial and is no part of its training."""
        return "" if self.options.objective == "rsum" else "evaluation under attack on validation"

    def first(self) -> RunConfig:
        """The configuration of a trial, for an estimate of what one takes."""
        return override(self.config, self.listed[0]) if self.listed else self.config

    def trials_of(self, point: Mapping[str, Any], material: str) -> list[dict[str, Any]]:
        """The trials of a point, one a seed; `material` stands for the data they read."""
        return [{**point, SEED: seed, MATERIAL: material} for seed in self.seeds]

    def points_in(self, ledger: Ledger) -> list[dict[str, Any]]:
        """The points that a ledger has trials of, in its order, with their keys in the space's."""
        found: dict[str, dict[str, Any]] = {}
        for entry in ledger:
            point = self.in_order(point_of(entry))
            if any(True for _ in placements(self.space.domains, point)):
                found.setdefault(fingerprint(point), point)
        return list(found.values())

    def in_order(self, changes: Mapping[str, Any]) -> dict[str, Any]:
        """Changes with their keys in the space's order, those that it has not at the end; a ledger sorts them."""
        place = {key: k for k, key in enumerate(self.space.keys)}
        return {key: changes[key] for key in sorted(changes, key=lambda key: place.get(key, len(place)))}

    def trial_label(self, entry: Entry) -> str:
        """A trial as readers know it, in its tracked run as in the list of a dry run."""
        return label({**self.in_order(point_of(entry)), SEED: entry.changes[SEED]})

    def value_of(self, ledger: Ledger, point: Mapping[str, Any], material: str) -> float | None:
        """Mean objective of a point over the seeds; None while any of its trials has not finished.

        A trial that was ended early and is not wanted whole counts as far as it came.
        """
        entries = [ledger.get(changes) for changes in self.trials_of(point, material)]
        ended = [entry for entry in entries if entry is not None and entry.state == "finished"]
        values = [entry.result["objective"] for entry in ended if not (self.whole and entry.stopped)]
        return sum(values) / len(values) if len(values) == len(self.seeds) else None

    def wanted(self, ledger: Ledger) -> Callable[[dict[str, Any]], bool]:
        """Which unfinished trials `sweep.run` lets run, judged by the ledger as it is now."""
        failed = {entry.id for entry in ledger if entry.state == "failed"}

        def chosen(changes: dict[str, Any]) -> bool:
            entry = ledger.get(changes)
            has_failed = entry is not None and entry.id in failed
            return self.options.run == "all" or has_failed == (self.options.run == "failed")

        return chosen

    def budget(self) -> Budget:
        """What may be spent on trials."""
        return Budget(self.options, self.need())

    def spent(self, ledger: Ledger) -> list[tuple[float, Need]]:
        """Seconds of every trial so far and what it took, which need not be what trials take now."""
        return ledger.costs(lambda changes: self.need())

    def need(self) -> Need:
        """Resources of one trial."""
        return need_of(self.config.train)


def point_of(entry: Entry) -> dict[str, Any]:
    """What was searched in a trial, without its seed and data."""
    return {key: value for key, value in entry.changes.items() if key not in (SEED, MATERIAL)}


def make_plan(request: Request) -> Plan:
    """The plan of a request. Raises InputError for whatever cannot be meant."""
    options: SweepOptions = request.options.sweep
    if "seed" in request.changed:
        raise InputError("seed: a sweep takes its seeds from sweep.seeds")
    if len(set(options.seeds)) != len(options.seeds) or not options.seeds:
        raise InputError(f"sweep.seeds={','.join(map(str, options.seeds))}: expected one or more different numbers")
    config: RunConfig = override(request.config, {"seed": 0})
    space = load_space(options.space)
    check_space(space, config, request.changed)
    check_objective(config)
    if SEED in space.keys:
        raise InputError(f"search space {options.space}: seed: a sweep takes its seeds from sweep.seeds")
    for key in RESERVED:
        if key in space.keys:
            raise InputError(f"search space {options.space}: {key}: sets what a trial needs, which is the same for all")
    _check_method(options, space, config)
    Budget(options, need_of(config.train)).check()
    if options.method == "hyperopt":
        for point in space.initial:
            _made(space, config, point)
    listed = () if options.method == "hyperopt" else tuple(_listed(space, options, config))
    return Plan(
        name=options.name or f"{stem(options.space.removesuffix('.py'))}-{stem(request.preset)}",
        named=bool(options.name),
        config=config,
        space=space,
        options=options,
        listed=listed,
    )


def _check_method(options: SweepOptions, space: Space, config: RunConfig) -> None:
    if options.method == "grid" and not space.is_grid:
        raise InputError(f"sweep.method=grid: {space.where} has ranges to draw from; use random, hyperopt or asha")
    if options.method == "hyperopt":
        check_searchable(space)
    if options.warm_start and options.method != "hyperopt":
        raise InputError(f"sweep.warm_start: sweep.method={options.method} cannot learn from trials; use hyperopt")
    if options.method == "asha":
        if options.objective != "rsum":
            raise InputError(
                f"sweep.method=asha: ends trials by their validation rsum; sweep.objective={options.objective} is "
                "known at their end only"
            )
        if config.train.workers > 1:
            raise InputError(f"sweep.method=asha: train.workers={config.train.workers}: ends trials of one worker only")
        if "train.epochs" in space.keys:
            raise InputError(f"search space {space.where}: train.epochs: asha compares trials of equal length")
        if config.train.epochs < 2 or options.grace >= config.train.epochs:
            raise InputError(f"sweep.grace={options.grace}: a trial has {config.train.epochs} epochs in all")


def check_point(config: RunConfig, changes: Mapping[str, Any]) -> RunConfig:
    """The configuration of a point. Raises InputError where its family and objective do not train together."""
    changed = override(config, changes)
    family_inputs(changed)
    check_objective(changed)
    if any(key.split(".")[0] in ("text", "features") for key in changes):
        check(changed)
    return changed


def _listed(space: Space, options: SweepOptions, config: RunConfig) -> list[dict[str, Any]]:
    """Initial points, then the grid or the draws; each configuration once, and each one that a family accepts."""
    drawn = [*space.initial, *expand(space, options.samples, options.search_seed)]
    points: dict[str, dict[str, Any]] = {}
    for changes in drawn:
        point, made = _made(space, config, changes)
        points.setdefault(fingerprint(made), point)
    found = list(points.values())
    return found if space.is_grid else found[: options.samples]


def _made(space: Space, config: RunConfig, changes: Mapping[str, Any]) -> tuple[dict[str, Any], RunConfig]:
    """A point as the configuration holds it, and that configuration. Raises InputError that names the point: each of
    its keys may do by itself."""
    try:
        point = canonical_point(config, changes)
        return point, check_point(config, point)
    except InputError as error:
        hint = "; a key that not every choice has goes below those that have it" if "no such key" in str(error) else ""
        raise InputError(f"search space {space.where}: {label(changes)}: {error}{hint}") from None


def told_by(name: str, workspace: Workspace, plan: Plan) -> list[tuple[dict[str, Any], float]]:
    """(point, value) of the finished points of another sweep that lie in this one's space.

    Raises InputError where there is no such sweep, or its runs differ in more than what either sweep searches.
    """
    folder = workspace.existing("sweeps", name, "sweep.warm_start")
    theirs = definition_of(folder)
    if not isinstance(theirs, dict) or not isinstance(theirs.get("config", {}), dict):
        raise InputError(f"sweep.warm_start={name}: {folder}/{DEFINITION} is missing or damaged")
    if theirs.get("kind") != "objective" or theirs.get("objective") != plan.options.objective:
        found = theirs.get("objective", "nothing")
        raise InputError(f"sweep.warm_start={name}: maximises {found}, this sweep {plan.options.objective}")
    base = flatten(identity(plan.config))
    from vse.presets import from_data

    other = from_data(theirs.get("config", {}), f"{folder}/{DEFINITION}")
    for key, value in flatten(other).items():
        if key not in plan.space.keys and base.get(key, value) != value:
            raise InputError(f"sweep.warm_start={name}: its runs have {key}={value}, these {base.get(key)}")
    values: dict[str, list[float]] = {}
    points: dict[str, dict[str, Any]] = {}
    for entry in Ledger(folder):
        if entry.state == "finished" and not entry.stopped and "objective" in entry.result:
            point = _here(plan, other, point_of(entry))
            if point is not None:
                points.setdefault(fingerprint(point), point)
                values.setdefault(fingerprint(point), []).append(entry.result["objective"])
    return [(points[key], sum(found) / len(found)) for key, found in values.items()]


def _here(plan: Plan, other: RunConfig, point: dict[str, Any]) -> dict[str, Any] | None:
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
