"""Margins of relational embeddings (Yan, 2019, sections 2.4 and 2.5), one at a time around 0.2: of the global hinge of
both kinds, of the nodes under cross attention, and of pools."""

from ray import tune

MARGINS = [0.05, 0.1, 0.2, 0.4]

SPACE = {
    "which": tune.grid_search(
        [
            {"objective.margin": tune.grid_search(MARGINS), "objective.hinge": tune.grid_search(["hardest", "sum"])},
            {"model.structure": "attention", "objective.structure_margin": tune.grid_search(MARGINS)},
            {
                "model.structure": "pool",
                "objective.global_weight": 0.2,
                "objective.structure_margin": tune.grid_search(MARGINS),
            },
        ]
    )
}
