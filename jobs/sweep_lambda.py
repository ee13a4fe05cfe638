"""Sweep jWAE's regularisation weights: `python jobs/sweep_lambda.py --preset jwae_mh_scenes`, or jwae_mse_scenes."""

import sys

from vse.cli.command import main
from vse.sweeps.objective_dry_run import describe_plan
from vse.sweeps.objective_plan import Options, SweepOptions, make_plan
from vse.sweeps.objective_sweep import run_objective_sweep

if __name__ == "__main__":
    sys.exit(
        main(
            "sweep_lambda",
            run_objective_sweep,
            description="Train every point of a search space, or search it, on any preset that has its keys "
            "(sweep.space). By default jWAE (hinge or squared error, by the preset) at each of five values of every "
            "weight of eq. 6; sweep.space=lambdas_joint sweep.method=hyperopt searches all four together.",
            default_preset="jwae_mh_scenes",
            options=Options(sweep=SweepOptions(space="lambdas")),
            check=make_plan,
            plan=describe_plan,
        )
    )
