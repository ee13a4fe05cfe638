"""Relation paradigm 2 (VSE-C, 3.2): a frequent preposition becomes one with which it shares no meaning."""

from collections.abc import Iterator
from dataclasses import dataclass

from vse.adversaries.pools import noun_phrase_start
from vse.adversaries.registry import contrast_attack
from vse.adversaries.vsec.lists import LISTS
from vse.adversaries.vsec.reading import Reading
from vse.adversaries.vsec.rules import ChangeRules
from vse.adversaries.vsec.slots import Slot, read_as
from vse.adversaries.vsec.words import PREPOSITIONS, Contrast, alternatives
from vse.adversaries.word_lists import Words, read_lists
from vse.text.components import STATIC, Object

_LONG = (("in", "front", "of"), ("on", "top", "of"), ("next", "to"), ("close", "to"), ("out", "of"), ("inside", "of"))
_REASON = "{} shares none of the 23 sets of meaning with it"
_UNDER = frozenset(["below", "beneath", "under", "underneath"])
_LIFTED = frozenset(["above", "over"])
_HANGING = frozenset(["hang", "swing", "dangle"])
_UPON = frozenset(["on", "on top of", "atop", "up", "down", "across", "over"])
_INSIDE = frozenset(["in", "inside", "outside"])


@dataclass(frozen=True, kw_only=True)
class PrepositionLists:
    """Word lists of a TOML file, which describes each of them."""

    worn: Words
    not_after: Words
    phrasal: Words
    particles: Words
    overhead: Words
    beside: Words
    devices: Words


PREPOSITION = read_lists(PrepositionLists, __file__)
_DRESS = PREPOSITION.worn | LISTS.colors | {"orange"}  # "a man in orange"


@contrast_attack("preposition", of_class="relation", paper_rank=4, lists=PREPOSITION)
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
        if token.pos == "ADP" and reading.lower[k] in PREPOSITIONS and reading.is_free(k, k + 1):
            yield _slot(
                reading, k, k + 1, _bits(reading.words, reading.rules, alternatives(reading.lower[k], reading.rules))
            )


def _slot(reading: Reading, first: int, last: int, allowed: int) -> Slot:
    return Slot(
        paradigm="preposition", first=first, last=last, phrases="preposition", allowed=allowed, fixed=(), reason=_REASON
    )


def _bits(words: Contrast, rules: ChangeRules, allowed: frozenset[str]) -> int:
    return sum(1 << k for k, word in enumerate(words.prepositions) if word in allowed)


def _preposition(reading: Reading, item: Object) -> tuple[int, int] | None:
    """Tokens [first, last) of the preposition right before the noun phrase of a concrete head."""
    last = noun_phrase_start(reading.caption.parse, item.token)
    if not reading.whole_phrase(item) or item.token in reading.misread:
        return None
    if not reading.visible(item) or last == 0 or _owned(reading, item):
        return None
    for phrase in _LONG:
        first = last - len(phrase)
        if first > 0 and reading.lower[first:last] == phrase:
            return (first, last) if reading.is_free(first, last) else None
    token = reading.caption.parse[last - 1]
    if token.pos != "ADP" or last < 2 or reading.tree.below(last - 1, "fixed"):
        return None
    if not PREPOSITION.not_after.isdisjoint((reading.lower[last - 2], reading.caption.parse[last - 2].lemma)):
        return None
    if reading.lower[last - 1] == "on" and reading.caption.parse[last - 2].lemma in _HANGING:
        return None  # what hangs on a bar is under it too
    if reading.lower[last - 1] == "at" and not _is_place(reading, item):
        return None
    verb = reading.caption.parse[last - 2].lemma
    if reading.lower[last - 1] in PREPOSITION.particles and verb in PREPOSITION.phrasal:
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


def _is_place(reading: Reading, item: Object) -> bool:
    """Whether what comes after "at" says where something is, not what is done to it: "sits at", not "tugs at"."""
    head = reading.tree.head(item.token)
    return head is None or not reading.tree.is_verb(head) or reading.caption.parse[head].lemma in STATIC


def _suiting(reading: Reading, item: Object, word: str) -> frozenset[str]:
    """Alternatives that can be seen to be false for this noun: what is in a shirt or in water may be under it too."""
    every = frozenset(reading.words.prepositions)
    if word in ("with", "without") or item.word in _DRESS or reading.related.is_worn(item.word):
        return every & {"without"}
    every -= {"without"}
    away = every & {"away from"}
    if item.word in LISTS.tethers:
        return away
    if item.word in LISTS.waters:
        return away | (every & _UNDER if word in _LIFTED else frozenset())
    if item.word in LISTS.slopes:
        upon = _UNDER - {"below"} | ({"up"} if word == "down" else frozenset())
        return away | (every & upon) if word in _UPON else away
    if item.word in LISTS.terrain:
        return away | (every & (_UNDER - {"below"}))
    if word == "behind" and reading.related.has_front(item.word):
        every -= {"in front of"}  # as the camera sees it
    if item.word in PREPOSITION.devices:
        every -= {"on", "atop"}
    if word.split()[0] in PREPOSITION.beside and item.word in PREPOSITION.overhead:
        every -= _UNDER
    if reading.related.is_enclosure(item.word):
        return every
    return every & _UNDER if word in _INSIDE else every - _INSIDE
