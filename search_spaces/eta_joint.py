"""The four weights of eq. 4 together, over the range of supplement A.2; first as published (section 3.5)."""

from ray import tune

SPACE = {
    "objective.eta_c": tune.loguniform(0.1, 8.0),
    "objective.eta_o": tune.loguniform(0.1, 8.0),
    "objective.eta_a": tune.loguniform(0.1, 8.0),
    "objective.eta_r": tune.loguniform(0.1, 8.0),
}

INITIAL = [{"objective.eta_c": 0.5, "objective.eta_o": 0.5, "objective.eta_a": 0.5, "objective.eta_r": 1.0}]
