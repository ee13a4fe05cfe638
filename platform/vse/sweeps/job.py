"""The command lines of sweeps: the body that all jobs share, and what `--dry-run` prints."""

import functools
import math
from collections import Counter
from collections.abc import Callable

from vse.cli import command
from vse.cli.command import Request
from vse.config import fingerprint
from vse.data.records import Records
from vse.stages.local_inputs import check_training, records_to_train
from vse.sweeps import engine
from vse.sweeps.estimates import Estimate, estimate
from vse.sweeps.ledger import Entry, Ledger, sweep_name, typical_seconds
from vse.sweeps.objective import ObjectiveSweepOptions
from vse.sweeps.objective import make_plan as make_objective_plan
from vse.sweeps.plan import ARM, MATERIAL, JobOptions, SweepOptions, SweepPlan, label_of
from vse.workspace.layout import Workspace

SHOWN = 200  # trials that are listed one by one


def sweep_job(
    job: str,
    make_plan: Callable[[Request], SweepPlan],
    *,
    description: str,
    default_preset: str,
    options: SweepOptions,
) -> int:
    """Serve the command line of a sweep; returns the exit status.

    Args:
        job: Name of the job's file, without its ending.
        make_plan: The kind of sweep.
        description: For `--help`.
        default_preset: Name of the run configuration.
        options: Defaults of the keys below `sweep`.
    """
    return command.main(
        job,
        functools.partial(engine.run_sweep_job, make_plan=make_plan),
        description=description,
        default_preset=default_preset,
        options=JobOptions(sweep=options),
        check=make_plan,
        plan=functools.partial(describe_sweep, make_plan=make_plan),
    )


def objective_job(job: str, *, space: str, description: str, default_preset: str) -> int:
    """Serve the command line of a sweep that maximises a number on validation; returns the exit status.

    Args:
        job: Name of the job's file, without its ending.
        space: The default search space.
        description: What it trains by default, for `--help`.
        default_preset: Name of the run configuration.
    """
    return sweep_job(
        job,
        make_objective_plan,
        description="Train every point of a search space, or search it, on any preset that has its keys "
        f"(sweep.space). {description}",
        default_preset=default_preset,
        options=ObjectiveSweepOptions(space=space),
    )


def describe_sweep(request: Request, make_plan: Callable[[Request], SweepPlan]) -> list[str]:
    """The lines of `--dry-run`: the trials, their cost and duration, and what was checked.

    Args:
        request: The user's request.
        make_plan: The kind of sweep.

    Raises:
        InputError: As the sweep does before it starts.
    """
    plan = make_plan(request)
    need, workspace = plan.need(), Workspace.open(request.workspace)
    name = sweep_name(plan.name, plan.definition())
    ledger = Ledger(workspace.sweep(name))
    listed, to_run = _trials(plan, ledger)
    more = [f"  and {len(listed) - SHOWN} more"] if len(listed) > SHOWN else []
    searched = plan.search_lines(ledger, workspace)
    to_run[""] += plan.drawn(ledger) * len(plan.seeds)
    count, states = to_run.total(), ledger.states
    at_once = need.at_once(engine.most(request, need), engine.side_by_side(request, plan.config.train))
    records = records_to_train(request.config, parsed=bool(plan.attacked), splits=plan.measured)
    runner = "its workers by Ray Train" if need.nested else "in Tune's own process"
    return [
        f"sweep {name}: {plan.question}",
        *listed[:SHOWN],
        *more,
        *searched,
        f"{count} trial{'' if count == 1 else 's'} to run, {states['finished']} finished, {states['failed']} failed",
        f"rule: {plan.rule}",
        f"a trial takes {need.cpus:g} CPU(s) and {need.gpus:g} GPU(s), {runner}; {at_once} side by side",
        *_cost_lines(plan, request, records, workspace, ledger, to_run, at_once),
        *plan.budget().lines(ledger.costs()),
        *check_training(request.config, records, request.workspace, request.options.ray, parsed=bool(plan.attacked)),
    ]


def _trials(plan: SweepPlan, ledger: Ledger) -> tuple[list[str], Counter[str]]:
    """A line for every trial that is known by now, and how many are to run by arm.

    The data may not have been read yet: the last trial of a point and seed counts, whatever data it read.
    """

    def without_data(changes: dict[str, object]) -> str:
        return fingerprint({key: value for key, value in changes.items() if key != MATERIAL})

    entries = {without_data(entry.changes): entry for entry in ledger}
    lines, to_run = [], Counter[str]()
    for changes in plan.trials(ledger, ""):
        entry = entries.get(without_data(changes))
        to_run[changes.get(ARM, "")] += plan.is_pending(entry)
        lines.append(f"  {label_of(changes)}: {_state(plan, entry)}")
    return lines, to_run


def _state(plan: SweepPlan, entry: Entry | None) -> str:
    if entry is None:
        return "to run"
    if entry.stopped:
        return "to go on, ended early" if plan.whole else "finished, ended early"
    return entry.state


def _cost_lines(
    plan: SweepPlan,
    request: Request,
    records: Records,
    workspace: Workspace,
    ledger: Ledger,
    to_run: Counter[str],
    at_once: int,
) -> list[str]:
    """What trials will take, by arm, and all of them side by side."""
    lines, about, seconds, wall = list[str](), "", 0.0, 0.0
    for arm, config in plan.arms.items():
        if not (count := to_run[arm]):
            continue
        median = typical_seconds((entry for entry in ledger if entry.changes.get(ARM, "") == arm), plan.need())
        each = (
            Estimate(median, "median of this sweep's finished trials")
            if median is not None
            else estimate(
                config,
                plan.space.keys,
                workspace,
                request,
                records=records if config.data == request.config.data else None,
            ).without(plan.besides)
        )
        if each.seconds is None:
            lines.append(f"{f'cost of {arm}' if arm else 'cost'}: unknown, {each.source}")
            continue
        if arm:
            lines.append(f"cost of {arm}: {count} trials of about {each.seconds:.3g} s ({each.source})")
        else:
            about = f"about {each.seconds:.3g} s per trial ({each.source}), "
        seconds += each.seconds * count
        wall += each.seconds * math.ceil(count / at_once)
    if seconds:
        side_by_side = f"{wall / 60:.0f} min" if wall >= 120 else f"{wall:.0f} s"
        text = f"cost: {about}{seconds / 3600:.2f} h of trials, {side_by_side} side by side"
        text += plan.budget().priced(seconds)
        lines.append(text + ("; at most, since trials are ended early" if not plan.whole else ""))
    return lines
