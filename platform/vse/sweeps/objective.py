"""Sweeps that maximise a number on validation: η, margins, λ, or any space a user writes. Every trial is a training."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from vse.cli.command import Request
from vse.config import canonical, fingerprint, flatten, knob, override, to_dict
from vse.errors import InputError
from vse.report.build import command_of
from vse.report.description import response_headline, response_text
from vse.report.response import OBJECTIVE, PAIRS, RSUM, ResponseResults
from vse.report.response_page import BEST, write_response
from vse.stages.pipeline import check
from vse.sweeps.halving import halving
from vse.sweeps.informed_search import InformedSearch, Value, first_draws, warm_points
from vse.sweeps.ledger import Entry, Ledger
from vse.sweeps.objective_results import headline, judged, preset_file, response_results
from vse.sweeps.optuna_search import SEARCHES
from vse.sweeps.plan import (
    MATERIAL,
    SEED,
    ChildRun,
    Outcome,
    Report,
    StageInputs,
    SweepCall,
    SweepOptions,
    SweepPlan,
    label_of,
    of_material,
    point_of,
    shared_fields,
)
from vse.sweeps.proposals import Proposer
from vse.sweeps.space import Space, canonical_point, check_space, expand, label, labels_of, load_space
from vse.sweeps.trial import OBJECTIVES, objective_trial, trial_function
from vse.sweeps.trial_process import Function
from vse.training.config import RunConfig, check_objective, family_inputs, identity
from vse.training.effects import check_effects
from vse.workspace.layout import Workspace

log = logging.getLogger(__name__)

METHODS = ("grid", "random", "hyperopt", "optuna", "asha")
INFORMED = ("hyperopt", "optuna")  # methods that learn from trials
RESERVED = ("train.workers", "train.threads", "train.gpus_per_worker")


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectiveSweepOptions(SweepOptions):
    """Keys of sweeps that maximise a number, besides those of every sweep."""

    method: str = knob(
        "grid",
        "grid: all listed values; random; hyperopt, optuna: guided by results; asha: random, weak trials stop early",
        choices=METHODS,
    )
    sampler: str = knob(
        "tpe",
        "optuna: tree of Parzen estimators, or Gaussian process",
        choices=tuple(SEARCHES),
        only="method=optuna",
    )
    samples: int = knob(20, "random, hyperopt, optuna, asha: points to draw, initial ones included", low=1)
    search_seed: int = knob(0, "seed of the draws", low=0)
    first: int = knob(0, "hyperopt, optuna: random points before the first informed one; 0: a third, at most 20", low=0)
    grace: int = knob(0, "asha: epochs before a trial may be stopped; 0: a ninth of all", low=0)
    reduction: float = knob(3.0, "asha: one trial in this many continues from a rung to the next", above=1)
    objective: str = knob("rsum", "what is maximised, on validation", choices=tuple(OBJECTIVES))
    warm_start: str = knob(
        "", "hyperopt, optuna: finished sweep below sweeps/ to learn from; its runs must be configured alike otherwise"
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class ObjectivePlan(SweepPlan):
    """A sweep that maximises a number. `listed` has the points of all methods that do not learn."""

    kind: ClassVar[str] = "objective sweep"

    @property
    def draws(self) -> bool:
        return self.options.method in INFORMED and self.options.run != "failed"

    @property
    def question(self) -> str:
        count = self.options.samples if self.options.method in INFORMED else len(self.listed)
        return (
            f"Which {', '.join(self.space.keys)} are best for {self.family} on {self.data}? {count} points "
            f"({self.options.method}), each trained with {self.seeds_text}."
        )

    @property
    def rule(self) -> str:
        return (
            f"The best point has the highest mean over seeds of the objective: {OBJECTIVES[self.options.objective]}. "
            "Only points whose trials have all finished count; ties go to the earlier point."
        )

    def definition(self) -> dict[str, Any]:
        """What is searched, not how: more points or seeds, or another method, extend a sweep."""
        return canonical(
            {
                "kind": "objective",
                "space": self.space.describe(),
                "objective": self.options.objective,
                "rule": self.rule,
                "config": to_dict(identity(self.config)),
            }
        )

    def trial_function(self, call: SweepCall) -> Function:
        asha = self.options.method == "asha"
        return trial_function(objective_trial, call, {"": self.config}, halving=asha, objective=self.options.objective)

    def inputs(self) -> Iterator[StageInputs]:
        """One configuration for each kind of input that listed points read, the preset's own first."""
        seen = set()
        for config in (self.config, *(override(self.config, point) for point in self.listed)):
            key = fingerprint([config.data, config.features, config.text, repr(family_inputs(config))])
            if key not in seen:
                seen.add(key)
                yield StageInputs(config=config, parsed=bool(self.attacked))

    def points_in(self, ledger: Ledger) -> list[dict[str, Any]]:
        """The points of this space that a ledger has trials of, in its order."""
        points = {fingerprint(point): point for entry in ledger if (point := point_of(entry.changes))}
        return [point for point in points.values() if labels_of(self.space.domains, point) is not None]

    def points(self, ledger: Ledger) -> list[dict[str, Any]]:
        points = {fingerprint(point): point for point in (*self.listed, *self.points_in(ledger))}
        for initial in self.space.initial if self.draws else ():
            if len(points) < self.options.samples:
                point = canonical_point(self.config, initial)
                points.setdefault(fingerprint(point), point)
        return list(points.values())

    @property
    def objectives(self) -> int:
        """How many numbers the search maximises."""
        return 2 if self.options.objective == "front" else 1

    def mean_of(self, entries: Sequence[Entry]) -> Value:
        """Mean objectives of some trials: rsum / 6 and pair accuracy for a front, otherwise the one objective."""
        if self.options.objective == "front":
            each = [(entry.result["metrics"][RSUM] / 6, entry.result["metrics"][PAIRS]) for entry in entries]
        else:
            each = [(entry.result["objective"],) for entry in entries]
        return tuple(sum(values) / len(values) for values in zip(*each, strict=True))

    def value_of(self, ledger: Ledger, point: Mapping[str, Any], material: str) -> Value | None:
        """`mean_of` a point over the seeds; None while any of its trials has not finished.

        A trial that was ended early counts with its last objective, unless whole trials are wanted.

        Args:
            ledger: Of the sweep.
            point: Dotted keys and values, without seed and material.
            material: Fingerprint of the data that the trials read.
        """
        entries = [ledger.get(changes) for changes in self.trials_of(point, material)]
        ended = [entry for entry in entries if entry is not None and entry.state == "finished"]
        entries = [entry for entry in ended if not (self.whole and entry.stopped)]
        return self.mean_of(entries) if len(entries) == len(self.seeds) else None

    def proposer(self, call: SweepCall) -> tuple[Proposer, int]:
        if self.options.method not in INFORMED:
            return super().proposer(call)
        points = self.points_in(call.ledger)
        search = search_of(self.options)(
            self.space,
            self.config,
            call.ledger,
            trials_of=lambda point: self.trials_of(point, call.material),
            points=points,
            value_of=lambda point: self.value_of(call.ledger, point, call.material),
            is_pending=self.is_pending,
            samples=self.options.samples,
            seed=self.options.search_seed,
            num_initial=self.options.first,
            learned=self._learned(call.workspace),
            objectives=self.objectives,
            draw=self.draws,
            check=lambda point: check_point(self.config, point),
        )
        new = max(0, self.options.samples - len(points)) if self.draws else 0
        return search, search.waiting + new * len(self.seeds)

    def _learned(self, workspace: Workspace) -> list[tuple[dict[str, Any], Value]]:
        return warm_points(self, workspace, self.mean_of) if self.options.warm_start else []

    def search_lines(self, ledger: Ledger, workspace: Workspace) -> list[str]:
        options = self.options
        if options.method not in INFORMED:
            return []
        first = options.first or first_draws(options.samples)
        lines = [f"  {self.drawn(ledger)} more points are drawn during the search, at random until {first} have ended"]
        if options.warm_start:
            lines.append(f"  it learns from {len(self._learned(workspace))} points of {options.warm_start}")
        return lines

    def drawn(self, ledger: Ledger) -> int:
        return max(0, self.options.samples - len(self.points(ledger))) if self.draws else 0

    def scheduler(self, call: SweepCall) -> Any:
        if self.options.method != "asha":
            return None
        epochs = self.config.train.epochs
        entries = of_material(call.ledger, call.material)
        return halving(epochs, self.options.grace or max(1, epochs // 9), self.options.reduction, entries)

    def children(self, entry: Entry) -> Iterator[ChildRun]:
        result = entry.result
        metrics: list[tuple[int, dict[str, float]]] = []
        if entry.state == "finished":
            step = entry.attempts - 1  # trackers show the last value of a trial that was ended early and continued
            numbers = {**result["metrics"], OBJECTIVE: result["objective"], "stopped": float(entry.stopped)}
            curve = enumerate(result.get("curve", []), start=1)
            cost = {"cost/seconds": entry.spent, "cost/gpu_hours": entry.spent * entry.need.gpus / 3600}
            metrics = [(step, numbers), *((epoch, {"rsum_so_far": value}) for epoch, value in curve), (step, cost)]
        yield ChildRun(
            id=entry.id,
            name=label_of(entry.changes),
            kind="trial",
            params={key: value for key, value in entry.changes.items() if key != MATERIAL},
            metrics=metrics,
            headline=result.get("metrics", {}),
            seconds=entry.length,
        )

    def outcome(self, call: SweepCall) -> Outcome:
        results = response_results(self, call, self.points_in(call.ledger))
        data = {**results.to_dict(), "seconds": 0.0, "gpu_hours": 0.0, "method": "", "claims": {}}
        return Outcome(digest=fingerprint(data), report=lambda: self._report(call, results))

    def _report(self, call: SweepCall, results: ResponseResults) -> Report:
        """Figures, table, page and the best preset, written into the sweep's folder."""
        results = judged(results, self, call.workspace)
        best = results.chosen()
        if best is None and results.points:
            early = any(point.stopped for point in results.points)
            more = "; points that asha ended early continue with another sweep.method" if early else ""
            log.warning("no point has finished with all seeds, so there is no best point%s", more)
        extra = {} if best is None else {BEST: preset_file(call.request, self.config, best.changes)}
        configuration, request = {"as swept": flatten(self.config)}, call.request
        files = write_response(call.folder, results, [command_of(request)], configuration, extra, request.elsewhere)
        return Report(
            files=files,
            headline=headline(results),
            details={"rule": results.rule, "claims": results.claims, "best": best.changes if best else {}},
            texts={"headline": response_headline(results), "result": response_text(results)},
            best=list(best.runs.values()) if best else [],
        )


def make_plan(request: Request) -> ObjectivePlan:
    """The plan of a request. Raises InputError for settings that do not go together."""
    options: ObjectiveSweepOptions = request.options.sweep
    space = load_space(options.space)
    fields = shared_fields(request, space)
    config: RunConfig = fields["config"]
    check_space(space, config, request.changed)
    check_objective(config)
    if SEED in space.keys:
        raise InputError(f"search space {options.space}: seed: a sweep takes its seeds from sweep.seeds")
    for key in RESERVED:
        if key in space.keys:
            raise InputError(
                f"search space {options.space}: {key}: sets the resources of a trial, which must be the same for all"
            )
    _check_method(options, space, config)
    listed = () if options.method in INFORMED else tuple(_listed(space, options, config))
    attacked = () if options.objective == "rsum" else ("val",)
    return ObjectivePlan(
        **fields,
        listed=listed,
        arms={"": override(config, listed[0]) if listed else config},
        attacked=attacked,
        besides="evaluation under attack on validation" if attacked else "",
        whole=options.method != "asha",
    )


def search_of(options: ObjectiveSweepOptions) -> type[InformedSearch]:
    """The search of a method that learns from trials."""
    if options.method != "hyperopt":
        return SEARCHES[options.sampler]
    from vse.sweeps.hyperopt_search import ParzenSearch  # HyperOpt imports scipy.stats, which no other method needs

    return ParzenSearch


def _check_method(options: ObjectiveSweepOptions, space: Space, config: RunConfig) -> None:
    if options.method == "grid" and not space.is_grid:
        raise InputError(
            f"sweep.method=grid: {space.where} has ranges to draw from; use random, hyperopt, optuna or asha"
        )
    if options.method in INFORMED:
        search_of(options).check_space(space)
        for point in space.initial:
            _checked(space, config, point)
    elif options.warm_start:
        raise InputError(
            f"sweep.warm_start: sweep.method={options.method} cannot learn from trials; use hyperopt or optuna"
        )
    if options.method == "hyperopt" and options.objective == "front":
        raise InputError(
            "sweep.method=hyperopt: maximises one number; sweep.objective=front needs sweep.method=optuna, random or "
            "grid"
        )
    if options.method == "asha":
        if options.objective != "rsum":
            raise InputError(
                f"sweep.method=asha: stops trials by their validation rsum, but sweep.objective={options.objective} is "
                "known only when they have ended"
            )
        if config.train.workers > 1:
            raise InputError(
                f"sweep.method=asha: train.workers={config.train.workers}: only stops trials with one worker"
            )
        if "train.epochs" in space.keys:
            raise InputError(f"search space {space.where}: train.epochs: asha compares trials of equal length")
        if config.train.epochs < 2 or options.grace >= config.train.epochs:
            raise InputError(f"sweep.grace={options.grace}: a trial has {config.train.epochs} epochs in all")


def check_point(config: RunConfig, changes: Mapping[str, Any]) -> RunConfig:
    """The configuration of a point.

    Raises:
        InputError: its family and objective do not train together, or one of its keys has no effect.
    """
    changed = override(config, changes)
    family_inputs(changed)
    check_objective(changed)
    check_effects(changed, changes)
    if any(key.split(".")[0] in ("text", "features") for key in changes):
        check(changed)
    return changed


def _listed(space: Space, options: ObjectiveSweepOptions, config: RunConfig) -> list[dict[str, Any]]:
    """Initial points, then the grid or the draws; each configuration once."""
    points: dict[str, dict[str, Any]] = {}
    for changes in (*space.initial, *expand(space, options.samples, options.search_seed)):
        point, changed = _checked(space, config, changes)
        points.setdefault(fingerprint(changed), point)
    listed = list(points.values())
    return listed if space.is_grid else listed[: options.samples]


def _checked(space: Space, config: RunConfig, changes: Mapping[str, Any]) -> tuple[dict[str, Any], RunConfig]:
    """A point as the configuration holds it, and that configuration.

    Raises:
        InputError: Nothing trains at the point, although each of its keys may be fine by itself.
    """
    try:
        point = canonical_point(config, changes)
        return point, check_point(config, point)
    except InputError as error:
        hint = (
            "; a key that not every choice has goes below the choices that have it"
            if "no such key" in str(error)
            else ""
        )
        raise InputError(f"search space {space.where}: {label(changes)}: {error}{hint}") from None
