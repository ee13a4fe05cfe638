"""What an α sweep would do and cost, said without doing it."""

from collections import Counter

from vse.cli.command import Request
from vse.stages.local_inputs import check_training
from vse.sweeps.alpha_plan import Plan, make_plan
from vse.sweeps.alpha_trials import SPLITS
from vse.sweeps.budget import typical
from vse.sweeps.estimates import Estimate, estimate
from vse.sweeps.ledger import Ledger, sweep_name
from vse.workspace.layout import Workspace
from vse.workspace.provenance import usable_cores


def describe_plan(request: Request) -> list[str]:
    """What the sweep would do, line by line, and what is checked for it; the body of `--dry-run`. Raises InputError."""
    plan = make_plan(request)
    need, total = plan.need(), len(plan.alphas) * len(plan.seeds)
    workspace = Workspace.open(request.workspace)
    ledger = Ledger(workspace.sweep(sweep_name(plan.name, plan.definition())))
    ended = {(e.changes["arm"], e.changes["seed"]): e.state for e in ledger if e.changes["kind"] == "train"}
    lines = [f"sweep {sweep_name(plan.name, plan.definition())} over {plan.data}"]
    for trial in plan.trainings(""):
        arm, seed = trial["arm"], trial["seed"]
        lines.append(f"  train {arm} seed {seed}: {ended.get((arm, seed), 'to run')}")
    lines.append(f"  encode {len(plan.seeds)} runs, measure {len(plan.seeds) * (len(plan.arms) - 1)} others")
    lines.append(
        f"  {total} trials: alpha in {', '.join(f'{a:g}' for a in plan.alphas)} for each of {len(plan.seeds)} seeds"
    )
    if len(ledger):
        states = Counter((e.changes["kind"], e.state) for e in ledger)
        told = (f"{count} {kind} {state}" for (kind, state), count in states.items())
        lines.append(f"its ledger so far: {', '.join(told)}")
    lines.append(f"rule: {plan.definition()['rule']}")
    lines.append(f"each training needs {need.cpus:g} CPU(s) and {need.gpus:g} GPU(s); {usable_cores()} cores here")
    lines += _cost_lines(plan, request, workspace, ledger) + plan.budget().lines(plan.spent(ledger))
    told = check_training(request.config, request.workspace, request.options.ray, parsed=True, splits=SPLITS)
    return [*lines, *told]


def _cost_lines(plan: Plan, request: Request, workspace: Workspace, ledger: Ledger) -> list[str]:
    """What the trainings will take, arm by arm; measuring and the α trials come on top."""
    lines, total = [], 0.0
    for arm, config in plan.arms.items():
        own = [entry for entry in ledger if entry.changes["kind"] == "train" and entry.changes["arm"] == arm]
        failed = {entry.changes["seed"] for entry in own if entry.state == "failed"}
        seeds = set(plan.seeds) - {entry.changes["seed"] for entry in own if entry.state == "finished"}
        left = len({"all": seeds, "new": seeds - failed, "failed": seeds & failed}[plan.run])
        if not left:
            continue
        known = typical(own, plan.need())
        found = estimate(config, (), workspace, request) if known is None else Estimate(known, "median of this sweep's")
        if found.seconds is None:
            lines.append(f"cost of {arm}: unknown, {found.source}")
        else:
            total += found.seconds * left
            lines.append(f"cost of {arm}: {left} trainings of about {found.seconds:.3g} s ({found.source})")
    if total:
        beside = plan.budget().priced(total)
        lines.append(f"cost: {total / 3600:.2f} h of trainings{beside}; measuring comes on top")
    return lines
