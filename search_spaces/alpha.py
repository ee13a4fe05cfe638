"""The curve of Fig. 5 (Wu et al., CVPR 2019): the weight of u_sent from 0 to 1 in steps of 0.05."""

from ray import tune

SPACE = {"model.alpha": tune.grid_search([round(0.05 * step, 2) for step in range(21)])}
