"""Images, captions and where they come from. Importing the package registers its sources."""

from vse.data import sources

__all__ = ["sources"]
