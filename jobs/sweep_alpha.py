"""Sweep UniVSE's α from images and captions to the curve: `python jobs/sweep_alpha.py --preset univse_scenes`."""

import sys

from vse.cli.command import main
from vse.sweeps.alpha import run_alpha_sweep
from vse.sweeps.alpha_dry_run import describe_plan
from vse.sweeps.alpha_plan import Options, make_plan

if __name__ == "__main__":
    sys.exit(
        main(
            "sweep_alpha",
            run_alpha_sweep,
            description="Train UniVSE and VSE++ over seeds, measure every alpha, choose one on validation, report.",
            default_preset="univse_scenes",
            options=Options(),
            check=make_plan,
            plan=describe_plan,
        )
    )
