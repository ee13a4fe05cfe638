"""Sweep margins and kinds of hinge: `python jobs/sweep_margin.py --preset relational_attention_scenes`."""

import sys

from vse.cli.command import main
from vse.sweeps.objective_dry_run import describe_plan
from vse.sweeps.objective_plan import Options, SweepOptions, make_plan
from vse.sweeps.objective_sweep import run_objective_sweep

if __name__ == "__main__":
    sys.exit(
        main(
            "sweep_margin",
            run_objective_sweep,
            description="Train every point of a search space, or search it, on any preset that has its keys "
            "(sweep.space). By default relational embeddings at several margins of the global hinge (hardest and "
            "sum), of the alignment of pools and of cross attention; sweep.space=margin_joint has ranges to search "
            "them in.",
            default_preset="relational_attention_scenes",
            options=Options(sweep=SweepOptions(space="margin")),
            check=make_plan,
            plan=describe_plan,
        )
    )
