"""Attacks, one file each. Adding one is one file and one import line here."""

from vse.adversaries.attacks import attribute, noun, numeral, object, preposition, relation, shuffle
from vse.adversaries.registry import ATTACKS, CONTRAST_ATTACKS, contrast_classes, identity, of_paper
from vse.registry import load_extensions

__all__ = [
    "ATTACKS",
    "CONTRAST_ATTACKS",
    "attribute",
    "contrast_classes",
    "identity",
    "noun",
    "numeral",
    "object",
    "of_paper",
    "preposition",
    "relation",
    "shuffle",
]

load_extensions("attack")  # of other installed packages
