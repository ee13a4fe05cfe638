"""Training losses. Adding one is one file and one import line here."""

from vse.objectives import ranking, univse

__all__ = ["ranking", "univse"]
