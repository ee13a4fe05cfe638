"""Training losses. Adding one is one file and one import line here."""

from vse.objectives import cse, embedding_network, infonce, jwae, logistic, ranking, relational, sigmoid, univse, vsec

__all__ = [
    "cse",
    "embedding_network",
    "infonce",
    "jwae",
    "logistic",
    "ranking",
    "relational",
    "sigmoid",
    "univse",
    "vsec",
]
