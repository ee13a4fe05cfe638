"""The table of the thesis on relational embeddings (Yan, 2019)."""

from vse.reproduction.catalogue import add_table
from vse.reproduction.claims import above, add_claim

add_table(
    "relational",
    "3.1",
    "Retrieval on 1,000 images",
    "retrieval",
    lacks={"published": "fastText's vectors are named by vectors=FILE"},
)
add_claim(
    "relational",
    "3.1",
    "node_pooling",
    "Pooling of nodes improves the relational encoder (Table 3.1).",
    above("Relational VSE (pooling)", "Relational VSE (basic)", "rsum"),
)
