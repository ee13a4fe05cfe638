"""Prepositions that may mean the same place: the published semantic overlap sets, and what we add to them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from vse.adversaries.word_lists import Groups, Table, read_lists


@dataclass(frozen=True, kw_only=True)
class PrepositionLists:
    """Sets of prepositions, and what may be put in for one. The file says what they are."""

    sets: Groups
    false_instead: Table
    phrases_instead: Mapping[str, str]


PREPOSITIONS = read_lists(PrepositionLists, __file__)
LISTED = frozenset().union(*PREPOSITIONS.sets)
PHRASES = ("in front of", "away from")


def sensible_alternatives(word: str) -> frozenset[str]:
    """What may be put in for a preposition (or `next to`, `in front of`) by our own table and the published sets."""
    chosen = PREPOSITIONS.false_instead.get(word, frozenset())
    if " " not in word:
        chosen &= published_alternatives(word, False)
    phrase = PREPOSITIONS.phrases_instead.get(word)
    return chosen - {word} if phrase is None else chosen | {phrase}


def published_alternatives(word: str, leak: bool) -> frozenset[str]:
    """Words of the published sets that may replace `word`.

    As written: those that share no set with it. With `leak`, as the published code does: every word of every set that
    does not hold `word`, although another set may hold both.
    """
    kept = union(group for group in PREPOSITIONS.sets if word not in group)
    return kept - {word} if leak else kept - union(group for group in PREPOSITIONS.sets if word in group) - {word}


def union(groups: Iterable[frozenset[str]]) -> frozenset[str]:
    """Everything in any of the groups."""
    return frozenset().union(*groups)
