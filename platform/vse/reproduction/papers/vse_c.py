"""Tables of VSE-C (Shi et al., COLING 2018). Tables 1, 5 and 8 show examples and lists of words."""

from vse.reproduction.catalogue import add_table

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
