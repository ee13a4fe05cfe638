"""The body that all jobs of sweeps share."""

import functools
from collections.abc import Callable

from vse.cli import command
from vse.cli.command import Request
from vse.sweeps.dry_run import describe_sweep
from vse.sweeps.engine import run_sweep_job
from vse.sweeps.objective import ObjectiveSweepOptions
from vse.sweeps.objective import make_plan as make_objective_plan
from vse.sweeps.plan import JobOptions, SweepOptions, SweepPlan


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
        functools.partial(run_sweep_job, make_plan=make_plan),
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
