"""Tables of VSE-C (Shi et al., COLING 2018). Tables 1, 5 and 8 show examples and lists of words."""

from vse.reproduction.catalogue import add_table
from vse.reproduction.claims import above, add_claim

_SELECTION = (
    "The paper takes 1,000 images whose captions all have twenty adversaries of each class; here every image of the "
    "split is asked, with as many adversaries as its captions give.",
)
_GLOVE = {"GloVe": ("/own/", "/{glove}/")}

add_table("vse_c", "2", "Image-to-caption retrieval, with all adversaries", "retrieval", "own_pools", notes=_SELECTION)
add_table("vse_c", "3", "Image-to-caption retrieval by class of adversaries", "own_pools", notes=_SELECTION)
add_table("vse_c", "4", "Numbers in the plural", "plural_split")
add_table("vse_c", "6", "Image-to-word retrieval", "image_to_word", derived=_GLOVE)
add_table("vse_c", "7", "Fill in the blank", "fill_in_blank", derived=_GLOVE)

_KINDS = ("VSE-C (+all)", "VSE-C (+n.)", "VSE-C (+rel.)", "VSE-C (+num.)")
_MAP = "image_to_word/own/map"

add_claim(
    "vse_c",
    "2",
    "robust",
    "VSE-C is less vulnerable to adversarial captions than VSE and VSE++ (section 4.1).",
    above("VSE-C (+all)", ("VSE", "VSE++"), "own_pool_all/r1"),
)
add_claim(
    "vse_c",
    "6",
    "words_of_images",
    "All VSE-C models outperform VSE, VSE++ and GloVe in image-to-word retrieval (section 4.3).",
    above(_KINDS, ("VSE", "VSE++", "GloVe"), _MAP),
)
add_claim(
    "vse_c",
    "6",
    "nouns_first",
    "VSE-C trained on nouns is best in image-to-word retrieval (section 4.3).",
    above("VSE-C (+n.)", [kind for kind in _KINDS if kind != "VSE-C (+n.)"], _MAP),
)
add_claim(
    "vse_c",
    "7",
    "grounded_blanks",
    "Models with images outperform GloVe in filling blanks (section 4.4).",
    above(("VSE++", "VSE-C"), "GloVe", "fill_in_blank/own/all/r1"),
)
add_claim(
    "vse_c",
    "7",
    "blanks",
    "VSE-C fills the blanks of nouns better than VSE++ (section 4.4, Table 7).",
    above("VSE-C", "VSE++", "fill_in_blank/own/noun/r1"),
)
