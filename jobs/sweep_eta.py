"""Sweep the weights of UniVSE's losses (supplement A.2): `python jobs/sweep_eta.py --preset univse_scenes`."""

import sys

from vse.cli.command import main
from vse.sweeps.objective_dry_run import describe_plan
from vse.sweeps.objective_plan import Options, SweepOptions, make_plan
from vse.sweeps.objective_sweep import run_objective_sweep

if __name__ == "__main__":
    sys.exit(
        main(
            "sweep_eta",
            run_objective_sweep,
            description="Train every point of a search space, or search it, on any preset that has its keys "
            "(sweep.space). By default UniVSE at each of five values of every loss weight, which answers the claim "
            "that they hardly matter; sweep.space=eta_joint sweep.method=hyperopt searches all four together.",
            default_preset="univse_scenes",
            options=Options(sweep=SweepOptions(space="eta")),
            check=make_plan,
            plan=describe_plan,
        )
    )
