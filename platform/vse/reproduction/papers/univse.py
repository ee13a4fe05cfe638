"""Tables of UniVSE (Wu et al., CVPR 2019) and of its supplement."""

from vse.reproduction.catalogue import add_table

_RESNET = {"published": "word vectors: GloVe's file is named by vectors=FILE"}

add_table("univse", "1", "Cross-modal retrieval on 1,000 and 5,000 images", "retrieval", lacks=_RESNET)
add_table(
    "univse",
    "2",
    "Image-to-sentence retrieval under attack",
    "attacks",
    lacks=_RESNET,
    subsets=True,
)
add_table("univse", "3", "Unified text-to-image retrieval", "unified_retrieval", lacks=_RESNET)
add_table(
    "univse",
    "4",
    "Dependencies of words recovered by the image",
    "visual_parsing",
    derived={"Random": ("/accuracy", "/random")},
    lacks=_RESNET,
)
add_table("univse_supplement", "1", "Components dropped in training and at test", "retrieval", "attacks", lacks=_RESNET)
add_table("univse_supplement", "2", "Spatial aggregation of the image", "retrieval", "attacks", lacks=_RESNET)
add_table("univse_supplement", "3", "Aggregation of semantic components", "retrieval", "attacks", lacks=_RESNET)
add_table("univse_supplement", "4", "Fixed and learned α", "retrieval", "attacks", lacks=_RESNET)
