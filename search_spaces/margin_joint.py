"""Margins, kind of hinge and structure of relational embeddings together; a structure has its own weight and margin."""

from ray import tune

SPACE = {
    "objective.margin": tune.uniform(0.05, 0.5),
    "objective.hinge": tune.choice(["hardest", "sum"]),
    "structure": tune.choice(
        [
            {"model.structure": "none"},
            {
                "model.structure": "pool",
                "objective.global_weight": tune.uniform(0.1, 1.0),
                "objective.pool_weight": tune.uniform(0.1, 1.0),
                "objective.structure_margin": tune.uniform(0.05, 0.5),
            },
            {
                "model.structure": "attention",
                "objective.attention_weight": tune.loguniform(0.02, 1.0),
                "objective.structure_margin": tune.uniform(0.05, 0.5),
            },
        ]
    ),
}

INITIAL = [
    {
        "objective.margin": 0.2,
        "objective.hinge": "hardest",
        "model.structure": "pool",
        "objective.global_weight": 0.2,
        "objective.pool_weight": 0.8,
        "objective.structure_margin": 0.2,
    },
    {
        "objective.margin": 0.2,
        "objective.hinge": "hardest",
        "model.structure": "attention",
        "objective.attention_weight": 0.15,
        "objective.structure_margin": 0.2,
    },
]
