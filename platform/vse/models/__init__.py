"""Model families. Adding one is one file and one import line here."""

from vse.models import univse, vsepp

__all__ = ["univse", "vsepp"]
