"""Tables of jWAE (Mahajan et al., ICCV 2019). Tables 1 and 2 show examples."""

from vse.reproduction.catalogue import add_table
from vse.reproduction.claims import above, add_claim
from vse.reproduction.options import SCALES

_VECTORS = {"published": "word vectors: word2vec's file is named by vectors=FILE"}
_DETECTOR = (
    "features of Fast R-CNN: VGG-19 reads each region (published), the shipped backbone does (scenes), or they are "
    "pooled from EfficientNet-Lite1's map of the photograph, and a sentence encoder reads the phrases (flickr8k)"
)

add_table("jwae", "3", "Cross-modal retrieval", "retrieval", lacks=_VECTORS)
add_table("jwae", "4", "jWAE and the VAE", "retrieval")
add_table("jwae", "5", "Trained on Flickr30k, tested on COCO", "retrieval", lacks=_VECTORS)
add_table("jwae", "6", "Trained on COCO, tested on Flickr30k", "retrieval", lacks=_VECTORS)
add_table(
    "jwae",
    "7",
    "Phrase localisation",
    "phrase_localisation",
    lacks=dict.fromkeys(SCALES, _DETECTOR),
)

_RECALLS = ("i2t/r5", "t2i/r5")

add_claim(
    "jwae",
    "4",
    "gaussian_helps",
    "jWAE-MH improves the accuracy of VSE++ (section 5.1).",
    above("jWAE-MH", "VSE++", "i2t/r1", "t2i/r1"),
)
add_claim(
    "jwae",
    "4",
    "variational_hurts",
    "A VAE decreases the accuracy of VSE++ (section 5.1).",
    above("VSE++", "VAE-MH", "i2t/r1", "t2i/r1"),
)
add_claim(
    "jwae",
    "5",
    "generalises_to_coco",
    "jWAE-MSE generalises from Flickr30k to COCO better than MSE, and in image-to-text retrieval better than the "
    "Embedding Network (section 5.1; from text to image Table 5 has that network first).",
    above("jWAE-MSE (VGG+w2v)", "MSE (VGG+w2v)", *_RECALLS),
    above("jWAE-MSE (VGG+w2v)", "Embed. Network (VGG+w2v)", "i2t/r5"),
)
add_claim(
    "jwae",
    "6",
    "generalises_to_flickr30k",
    "jWAE-MSE generalises from COCO to Flickr30k better than MSE and the Embedding Network (section 5.1).",
    above("jWAE-MSE (VGG+w2v)", ("MSE (VGG+w2v)", "Embed. Network (VGG+w2v)"), *_RECALLS),
)
add_claim(
    "jwae",
    "7",
    "localisation",
    "jWAE-MSE outperforms earlier embedding networks in phrase localisation (section 5.2).",
    above("jWAE-MSE", ("Embedding Network", "Similarity Network"), "phrase_localisation/r1"),
)
add_claim(
    "jwae",
    "7",
    "localisation_cite",
    "jWAE in CITE improves phrase localisation (section 5.2).",
    above("jWAE-MSE+CITE", "CITE", "phrase_localisation/r1"),
)
