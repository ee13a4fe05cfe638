"""Tables of jWAE (Mahajan et al., ICCV 2019). Tables 1 and 2 show examples."""

from vse.reproduction.catalogue import add_table

_VECTORS = {"published": "word vectors: word2vec's file is named by vectors=FILE"}
_DETECTOR = "features of Fast R-CNN: VGG-19 reads each region (published), the shipped backbone (scenes)"

add_table("jwae", "3", "Cross-modal retrieval", "retrieval", lacks=_VECTORS)
add_table("jwae", "4", "jWAE and the VAE", "retrieval")
add_table("jwae", "5", "Trained on Flickr30k, tested on COCO", "retrieval", lacks=_VECTORS)
add_table("jwae", "6", "Trained on COCO, tested on Flickr30k", "retrieval", lacks=_VECTORS)
add_table(
    "jwae",
    "7",
    "Phrase localisation",
    "phrase_localisation",
    lacks={"published": _DETECTOR, "scenes": _DETECTOR, "flickr8k": "photographs with phrase boxes in this table"},
)
