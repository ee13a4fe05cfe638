"""Supplement A.2 (Wu et al., CVPR 2019): one weight of eq. 4 at five values, the others as in the preset; 20 models."""

from ray import tune

VALUES = [0.1, 1.0, 2.0, 4.0, 8.0]

SPACE = {
    "weight": tune.grid_search(
        [
            {"objective.eta_c": tune.grid_search(VALUES)},
            {"objective.eta_o": tune.grid_search(VALUES)},
            {"objective.eta_a": tune.grid_search(VALUES)},
            {"objective.eta_r": tune.grid_search(VALUES)},
        ]
    )
}
