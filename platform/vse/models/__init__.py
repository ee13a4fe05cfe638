"""Model families. Adding one is one file and one import line here."""

from vse.models import (
    cca,
    cse,
    embedding_network,
    jwae,
    jwae_scan,
    order,
    relational,
    scan,
    similarity_network,
    univse,
    vse_infinity,
    vsec,
    vsepp,
)

__all__ = [
    "cca",
    "cse",
    "embedding_network",
    "jwae",
    "jwae_scan",
    "order",
    "relational",
    "scan",
    "similarity_network",
    "univse",
    "vse_infinity",
    "vsec",
    "vsepp",
]
