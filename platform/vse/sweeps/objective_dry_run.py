"""What a sweep of trainings would do, cost and take, said without doing it."""

import math
from typing import Any

from vse import registry
from vse.cli.command import Request
from vse.config import fingerprint
from vse.stages.local_inputs import check_training
from vse.sweeps.budget import typical
from vse.sweeps.estimates import Estimate, estimate
from vse.sweeps.frame import most, side_by_side
from vse.sweeps.ledger import Ledger, sweep_name
from vse.sweeps.objective_plan import Plan, make_plan, point_of, told_by
from vse.sweeps.objective_trials import SEED
from vse.sweeps.search import first_draws
from vse.sweeps.space import canonical_point, label
from vse.workspace.layout import Workspace

SHOWN = 200  # trials that are listed one by one


def _expected(plan: Plan, ledger: Ledger, workspace: Workspace, request: Request) -> Estimate:
    known = typical(ledger, plan.need())
    if known is not None:
        return Estimate(known, "median of this sweep's finished trials")
    return estimate(plan.first(), plan.space.keys, workspace, request).without(plan.beside_training)


def _points(plan: Plan, ledger: Ledger) -> dict[str, dict[str, Any]]:
    """The points that are known before anything is drawn, by their fingerprints."""
    points = {fingerprint(p): p for p in (*plan.listed, *plan.points_in(ledger))}
    if plan.options.method == "hyperopt" and plan.options.run != "failed":
        for initial in (canonical_point(plan.config, point) for point in plan.space.initial):
            if len(points) < plan.options.samples:
                points.setdefault(fingerprint(initial), initial)
    return points


def describe_plan(request: Request) -> list[str]:
    """What the sweep would do, trial by trial, what that would cost and take, and what is checked for it; the body of
    `--dry-run`. Raises InputError."""
    plan = make_plan(request)
    options, need = plan.options, plan.need()
    workspace = Workspace.open(request.workspace)
    name = sweep_name(plan.name, plan.definition())
    ledger = Ledger(workspace.sweep(name))
    known = {(fingerprint(point_of(e)), e.changes[SEED]): e for e in ledger}
    family, data = registry.name_of("family", plan.config.model), registry.name_of("source", plan.config.data)
    lines = [f"sweep {name}: {family} on {data}, {options.method}, objective {options.objective}"]
    points = _points(plan, ledger)
    listed, to_run = [], 0
    for seed in plan.seeds:
        for digits, point in points.items():
            entry = known.get((digits, seed))
            state = "to run" if entry is None else entry.state
            if entry is not None and entry.stopped:
                state = "to go on, ended early" if plan.whole else "finished, ended early"
            wanted = state.startswith("to ") or (state == "failed" and options.run != "new")
            wanted = wanted and (options.run != "failed" or state == "failed")
            to_run += wanted
            listed.append(f"  {label({**point, SEED: seed})}: {state}")
    lines += listed[:SHOWN]
    if len(listed) > SHOWN:
        lines.append(f"  and {len(listed) - SHOWN} more")
    if options.method == "hyperopt":
        more = max(0, options.samples - len(points)) if options.run != "failed" else 0
        first = options.first or first_draws(options.samples)
        lines.append(f"  {more} more points are drawn as the search goes on, at random until {first} are known")
        if options.warm_start:
            told = told_by(options.warm_start, workspace, plan)
            lines.append(f"  it learns from {len(told)} points of {options.warm_start}")
        to_run += more * len(plan.seeds)
    finished, failed = (sum(e.state == state for e in ledger) for state in ("finished", "failed"))
    lines.append(f"{to_run} trial{'' if to_run == 1 else 's'} to run, {finished} finished, {failed} failed")
    lines.append(f"rule: {plan.rule}")
    at_once = need.at_once(most(request, need), side_by_side(request, plan.config.train))
    how = "its workers by Ray Train" if need.nested else "in Tune's own process"
    lines.append(f"a trial takes {need.cpus:g} CPU(s) and {need.gpus:g} GPU(s), {how}; {at_once} side by side")
    if to_run:
        lines += _cost_lines(plan, _expected(plan, ledger, workspace, request), to_run, at_once)
    lines += plan.budget().lines(plan.spent(ledger))
    attacked = options.objective != "rsum"
    return [*lines, *check_training(request.config, request.workspace, request.options.ray, parsed=attacked)]


def _cost_lines(plan: Plan, found: Estimate, to_run: int, at_once: int) -> list[str]:
    if found.seconds is None:
        return [f"cost: unknown, {found.source}"]
    total = found.seconds * to_run
    text = f"cost: about {found.seconds:.3g} s per trial ({found.source}), {total / 3600:.2f} h of trials, "
    wall = found.seconds * math.ceil(to_run / at_once)
    text += f"{f'{wall / 60:.0f} min' if wall >= 120 else f'{wall:.0f} s'} side by side"
    text += plan.budget().priced(total)
    return [text + ("; at most, since trials are ended early" if plan.options.method == "asha" else "")]
