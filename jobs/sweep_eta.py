"""Sweep the weights of UniVSE's losses (supplement A.2): `python jobs/sweep_eta.py --preset univse_scenes`."""

import sys

from vse.sweeps.job import objective_job

if __name__ == "__main__":
    sys.exit(
        objective_job(
            "sweep_eta",
            space="eta",
            description="By default UniVSE at each of five values of every loss weight, which answers the claim "
            "that they hardly matter; sweep.space=eta_joint sweep.method=hyperopt searches all four together.",
            default_preset="univse_scenes",
        )
    )
