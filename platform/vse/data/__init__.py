"""What exists: images, captions and what is known about them. Importing the package registers its sources."""

from vse.data import coco, karpathy, precomp, table
from vse.data.scenes import source as scenes

__all__ = ["coco", "karpathy", "precomp", "scenes", "table"]
