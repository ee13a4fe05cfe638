"""jWAE's weights of eq. 6 (Mahajan et al., ICCV 2019), one at a time on a logarithmic scale that spans both published
settings (1, 0.2 for squared errors; 0.5, 0.005, 0.01 for the hinge)."""

from ray import tune

VALUES = [0.001, 0.01, 0.1, 1.0, 10.0]

SPACE = {
    "weight": tune.grid_search(
        [
            {"objective.lambda1": tune.grid_search(VALUES)},
            {"objective.lambda2": tune.grid_search(VALUES)},
            {"objective.lambda3": tune.grid_search(VALUES)},
            {"objective.lambda4": tune.grid_search(VALUES)},
        ]
    )
}
