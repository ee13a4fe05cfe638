"""The sources of records, one a file. Importing the package registers them."""

from vse.data.sources import coco, flickr30k_entities, hf, karpathy, phrase_regions, precomp, scenes, table, webdataset

__all__ = ["coco", "flickr30k_entities", "hf", "karpathy", "phrase_regions", "precomp", "scenes", "table", "webdataset"]
