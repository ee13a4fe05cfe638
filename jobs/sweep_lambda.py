"""Sweep jWAE's regularisation weights: `python jobs/sweep_lambda.py --preset jwae_mh_scenes`, or jwae_mse_scenes."""

import sys

from vse.sweeps.job import objective_job

if __name__ == "__main__":
    sys.exit(
        objective_job(
            "sweep_lambda",
            space="lambdas",
            description="By default jWAE (hinge or squared error, by the preset) at each of five values of every "
            "weight of eq. 6; sweep.space=lambdas_joint sweep.method=hyperopt searches all four together.",
            default_preset="jwae_mh_scenes",
        )
    )
