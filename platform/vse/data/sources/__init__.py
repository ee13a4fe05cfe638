"""The sources of records, one a file. Importing the package registers them."""

from vse.data.sources import coco, karpathy, precomp, scenes, table

__all__ = ["coco", "karpathy", "precomp", "scenes", "table"]
