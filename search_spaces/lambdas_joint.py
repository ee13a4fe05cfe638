"""jWAE's four weights of eq. 6 together; first both published settings (section 5.1)."""

from ray import tune

SPACE = {f"objective.lambda{k}": tune.loguniform(1e-4, 10.0) for k in (1, 2, 3, 4)}

INITIAL = [
    {"objective.lambda1": 0.5, "objective.lambda2": 0.005, "objective.lambda3": 0.01, "objective.lambda4": 0.01},
    {"objective.lambda1": 1.0, "objective.lambda2": 1.0, "objective.lambda3": 0.2, "objective.lambda4": 0.2},
]
