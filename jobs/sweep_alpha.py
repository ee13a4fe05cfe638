"""Sweep UniVSE's α from images and captions to the curve: `python jobs/sweep_alpha.py --preset univse_scenes`."""

import sys

from vse.sweeps.alpha import AlphaSweepOptions, make_plan
from vse.sweeps.job import sweep_job

if __name__ == "__main__":
    sys.exit(
        sweep_job(
            "sweep_alpha",
            make_plan,
            description="Train UniVSE and VSE++ over seeds, measure every alpha, choose one on validation, report.",
            default_preset="univse_scenes",
            options=AlphaSweepOptions(),
        )
    )
