"""The table of the thesis on relational embeddings (Yan, 2019)."""

from vse.reproduction.catalogue import add_table

add_table(
    "relational",
    "3.1",
    "Retrieval on 1,000 images",
    "retrieval",
    lacks={"published": "fastText's vectors are named by vectors=FILE"},
)
