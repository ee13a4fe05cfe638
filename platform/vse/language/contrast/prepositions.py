"""Relation paradigm 2 (VSE-C, 3.2): a frequent preposition becomes one with which it shares no meaning."""

from collections.abc import Iterator

from vse.language.components import Object
from vse.language.contrast.lists import BESIDE, NOT_AFTER, OVERHEAD, PARTICLES, PHRASAL, SLOPES, WATERS
from vse.language.contrast.overlap import LISTED
from vse.language.contrast.reading import Reading
from vse.language.contrast.rules import Rules
from vse.language.contrast.slots import Slot, read_as
from vse.language.contrast.words import Contrast, alternatives
from vse.language.pools import noun_phrase_start

_LONG = (("in", "front", "of"), ("on", "top", "of"), ("next", "to"), ("close", "to"), ("out", "of"), ("inside", "of"))
_REASON = "{} shares none of the 23 sets of meaning with it"
_HIDDEN = frozenset(["below", "beneath", "under", "underneath", "inside"])


def preposition_slots(reading: Reading) -> Iterator[Slot]:
    """One slot for every preposition before a noun phrase; as published, for every one that stands in the sets."""
    if not reading.rules.sensible_prepositions:
        yield from _published_slots(reading)
        return
    seen: set[tuple[int, int]] = set()
    for item in reading.objects:
        place = _preposition(reading, item)
        if place is None or place in seen:
            continue
        seen.add(place)
        first, last = place
        word = " ".join(reading.lower[first:last])
        allowed = frozenset(alternatives(word, reading.rules)) & _suiting(reading, item, word)
        slot = _slot(reading, first, last, _bits(reading.words, reading.rules, allowed))
        kept = [
            k
            for k in slot.choices()
            if (reading.words.prepositions[k].split()[0], item.word) not in reading.image.placed
            and read_as(slot, k, {"preposition": reading.words.prepositions}, reading.lower) not in reading.image.texts
        ]
        if kept:
            yield _slot(reading, first, last, sum(1 << k for k in kept))


def _published_slots(reading: Reading) -> Iterator[Slot]:
    for k, token in enumerate(reading.caption.parse):
        if token.pos == "ADP" and reading.lower[k] in LISTED and reading.is_free(k, k + 1):
            yield _slot(
                reading, k, k + 1, _bits(reading.words, reading.rules, alternatives(reading.lower[k], reading.rules))
            )


def _slot(reading: Reading, first: int, last: int, allowed: int) -> Slot:
    return Slot(
        paradigm="preposition", first=first, last=last, phrases="preposition", allowed=allowed, fixed=(), reason=_REASON
    )


def _bits(words: Contrast, rules: Rules, allowed: frozenset[str]) -> int:
    return sum(1 << k for k, word in enumerate(words.prepositions) if word in allowed)


def _preposition(reading: Reading, item: Object) -> tuple[int, int] | None:
    """Tokens [first, last) of the preposition right before the noun phrase of a concrete head."""
    last = noun_phrase_start(reading.caption.parse, item.token)
    if not reading.whole_phrase(item):
        return None
    if not reading.visible(item) or last == 0 or _owned(reading, item):
        return None
    for phrase in _LONG:
        first = last - len(phrase)
        if first > 0 and reading.lower[first:last] == phrase:
            return (first, last) if reading.is_free(first, last) else None
    token = reading.caption.parse[last - 1]
    if token.pos != "ADP" or last < 2 or reading.tree.below(last - 1, "fixed") or reading.lower[last - 2] in NOT_AFTER:
        return None
    if reading.lower[last - 1] in PARTICLES and reading.caption.parse[last - 2].lemma in PHRASAL:
        return None
    if reading.lower[last - 1] == "by" and _is_agent(reading, item):
        return None
    return (last - 1, last) if reading.is_free(last - 1, last) else None


def _owned(reading: Reading, item: Object) -> bool:
    """Whether the noun is somebody's part or a part of something: "on its back", "in the shape of a heart"."""
    tree = reading.tree
    return reading.lower[item.token + 1 : item.token + 2] == ("of",) or bool(tree.below(item.token, "poss"))


def _is_agent(reading: Reading, item: Object) -> bool:
    head = reading.tree.head(item.token)
    return head is not None and reading.caption.parse[head].tag in ("VBN", "VBD")


def _suiting(reading: Reading, item: Object, word: str) -> frozenset[str]:
    """Alternatives that can be seen to be false for this noun: what is in a shirt or in water may be under it too."""
    every = frozenset(reading.words.prepositions)
    if reading.related.is_worn(item.word):
        return every & {"without"}
    if word in ("with", "without"):
        return every & {"without"}
    if item.word in WATERS:
        every -= _HIDDEN | {"atop", "over"}
    if word.split()[0] in BESIDE and item.word in OVERHEAD:
        every -= _HIDDEN - {"inside"}
    if word == "down" and item.word in SLOPES:
        return every | {"up"}
    return every - ({"without"} if reading.related.is_enclosure(item.word) else {"without", "outside"})
