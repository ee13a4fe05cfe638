"""Tables of UniVSE (Wu et al., CVPR 2019) and of its supplement."""

from typing import Any

from vse.reproduction.catalogue import TOTAL, PaperProtocol, add_table
from vse.reproduction.claims import above, add_claim

_ATTACKS = PaperProtocol(
    paper="adversaries as in its supplement (B.2), even if they happen to be true, with nouns and relations that occur "
    "more than 100 times and the 37 printed attributes (A.1), of which none are held out from training",
    here="adversaries are certainly false, and three tenths of the words are held out for disjoint attacks",
    keys={
        "attacks.words": ("published",),
        "adversaries.pools.minimum": 101,
        "adversaries.pools.attributes": "published",
        "adversaries.pools.held_out": False,
    },
)
_RESNET = {"published": "word vectors: GloVe's file is named by vectors=FILE"}
_SUPPLEMENT: dict[str, Any] = {"lacks": _RESNET, "protocol": _ATTACKS}

add_table("univse", "1", "Cross-modal retrieval on 1,000 and 5,000 images", "retrieval", lacks=_RESNET)
add_table(
    "univse",
    "2",
    "Image-to-sentence retrieval under attack",
    "attacks",
    lacks=_RESNET,
    subsets=True,
    protocol=_ATTACKS,
)
add_table(
    "univse",
    "3",
    "Unified text-to-image retrieval",
    "unified_retrieval",
    lacks=_RESNET,
    needs={
        "unified_obj_det/map": "obj(det) and the sum need boxes of categories, in data.file or, for COCO, as in "
        "set=data.boxes=annotations/instances_train2014.json,annotations/instances_val2014.json"
    },
)
add_table(
    "univse",
    "4",
    "Dependencies of words recovered by the image",
    "visual_parsing",
    derived={"Random": ("/accuracy", "/random")},
    lacks=_RESNET,
)
add_table("univse_supplement", "1", "Components dropped in training and at test", "retrieval", "attacks", **_SUPPLEMENT)
add_table("univse_supplement", "2", "Spatial aggregation of the image", "retrieval", "attacks", **_SUPPLEMENT)
add_table("univse_supplement", "3", "Aggregation of semantic components", "retrieval", "attacks", **_SUPPLEMENT)
add_table("univse_supplement", "4", "Fixed and learned α", "retrieval", "attacks", **_SUPPLEMENT)

_BASELINES = ("VSE++", "VSE-C")
_ALL = "UniVSE (u_sent + u_comp)"

add_claim(
    "univse",
    "1",
    "retrieval",
    "UniVSE outperforms the baselines (section 4.1).",
    above("UniVSE", (*_BASELINES, "CSE"), "rsum"),
)
add_claim(
    "univse",
    "2",
    "robust",
    "UniVSE is more robust than VSE++ and VSE-C under all three attacks together (section 4.2).",
    above(_ALL, _BASELINES, TOTAL),
)
add_claim(
    "univse",
    "2",
    "all_components",
    "Combining all components is most robust (section 4.2).",
    above(_ALL, [f"UniVSE (u_sent{other})" for other in ("", " + u_obj", " + u_attr", " + u_rel")], TOTAL),
)
add_claim(
    "univse",
    "3",
    "unified",
    "UniVSE trained with all contrastive samples is above VSE++ and VSE-C over all kinds of queries (section 4.3).",
    above("UniVSE_all", _BASELINES, "unified_sum"),
)
add_claim(
    "univse",
    "3",
    "all_samples",
    "It is also above UniVSE trained with one kind (section 4.3).",
    above("UniVSE_all", ("UniVSE_obj", "UniVSE_attr", "UniVSE_rel"), "unified_sum"),
)
add_claim(
    "univse",
    "3",
    "own_kind",
    "Contrastive samples of one kind improve retrieval by queries of this kind (section 4.3).",
    above("UniVSE_obj", ("UniVSE_attr", "UniVSE_rel"), "unified_obj/map"),
    above("UniVSE_attr", ("UniVSE_obj", "UniVSE_rel"), "unified_attr/map"),
    above("UniVSE_rel", ("UniVSE_obj", "UniVSE_attr"), "unified_rel/map"),
)
for _kind, _what in (("attribute", "attributes"), ("relation", "relations")):
    add_claim(
        "univse",
        "4",
        f"parsing_{_kind}",
        f"UniVSE recovers the dependencies of {_what} better than VSE++ and VSE-C (section 4.4).",
        above("UniVSE", _BASELINES, f"parsing_{_kind}/accuracy"),
    )
add_claim(
    "univse_supplement",
    "2",
    "pooling",
    "Max-10 pooling is above average and max pooling (A.2).",
    above("UniVSE (Max-10)", ("UniVSE (Avg)", "UniVSE (Max)"), "rsum"),
)
add_claim(
    "univse_supplement",
    "2",
    "loss_of_components",
    "The loss on bags of components makes max-10 pooling more robust (A.2).",
    above("UniVSE (Max-10)", "UniVSE (Max-10 without l_comp)", TOTAL),
)
add_claim(
    "univse_supplement",
    "4",
    "fixed_alpha",
    "A fixed α is more robust than a learned one (A.2).",
    above("UniVSE (Fixed alpha, 0.75)", "UniVSE (Learnable alpha, 0.93)", TOTAL),
)
