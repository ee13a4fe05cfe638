"""Noun paradigm (VSE-C, 3.2): a frequent concrete head becomes another one of different meaning."""

from collections.abc import Iterator

from vse.adversaries.pools import determiner_of, is_plural
from vse.adversaries.registry import contrast_attack
from vse.adversaries.vsec.lists import LISTS
from vse.adversaries.vsec.reading import Reading
from vse.adversaries.vsec.slots import Slot
from vse.adversaries.vsec.words import FOR_ONE
from vse.text.components import Object

_REASON = "{} is frequent and concrete, shares no synset and no hypernym with it, and no caption of the image says it"


@contrast_attack("noun", paper_rank=1)
def noun_slots(reading: Reading) -> Iterator[Slot]:
    """One slot for every concrete head, and two for a head without determiner or modifier."""
    for item in reading.objects:
        if reading.concrete(item):
            yield from _slots(reading, item)


def _slots(reading: Reading, item: Object) -> Iterator[Slot]:
    parse = reading.caption.parse
    start = reading.compound_start(item)
    after, before = reading.lower[item.token + 1 : item.token + 2], reading.lower[start - 1] if start else ""
    if not reading.is_free(start, item.token + 1) or (reading.rules.agreement and after == ("of",)):
        return  # "a glass of wine"
    if reading.rules.agreement and reading.shares_determiner(item):
        return  # "an adult and baby moose"
    barred = reading.image.barred_nouns | reading.related.of(item.word)

    def slot(first: int, phrases: str, kind: str) -> Slot:
        allowed = reading.words.fitting[kind] & ~barred
        return Slot(
            paradigm="noun",
            first=first,
            last=item.token + 1,
            phrases=phrases,
            allowed=allowed,
            fixed=(),
            reason=_REASON,
        )

    if not reading.rules.agreement:
        yield slot(item.token, "singular", "singular")
        return
    if is_plural(parse, item.token):
        yield slot(start, "plural", "plural")
        return
    determiner = determiner_of(parse, item.token)
    if before in ("a", "an") and reading.is_free(start - 1, start):
        yield slot(start - 1, "indefinite", "counted")
    elif determiner == "a" or any(reading.lower[k] in FOR_ONE for k in range(reading.phrase_start(item), start)):
        yield slot(start, "singular", "counted")
    elif determiner:
        quantity = reading.lower[reading.phrase_start(item)] in ("some", "much", "any", "more", "enough", "all")
        yield slot(start, "singular", "mass" if quantity else "singular")
    elif item.word in reading.words.counted and item.word not in LISTS.mass:
        if not reading.has_article:
            yield slot(start, "singular", "counted")  # captions that leave articles out: "dog on bed"; not "in hand"
    else:
        yield slot(start, "singular", "mass")
        modified = start > 1 and parse[start - 1].tag == "VBG" and parse[start - 2].pos == "ADP"  # "in standing water"
        if start == reading.phrase_start(item) and before != "of" and not modified:
            yield slot(start, "indefinite", "counted")
