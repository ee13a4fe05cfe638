"""Numeral paradigm (VSE-C, 3.2): another quantity, with nouns and verbs inflected; `a` and `an` count as one."""

from collections.abc import Iterator
from dataclasses import dataclass

from vse.adversaries.pools import is_plural
from vse.adversaries.registry import contrast_attack
from vse.adversaries.vsec.grammar import agree, other_number
from vse.adversaries.vsec.lists import LISTS
from vse.adversaries.vsec.reading import Reading
from vse.adversaries.vsec.slots import Fixed, Slot
from vse.adversaries.vsec.words import ARTICLES, DIGITS, NUMBERS
from vse.adversaries.word_lists import SHARED, Words, read_lists
from vse.text.components import Object


@dataclass(frozen=True, kw_only=True)
class NumeralLists:
    """Word lists of a TOML file, which describes each of them."""

    singular_pronouns: Words
    plural_pronouns: Words
    uncounted: Words


NUMERAL = read_lists(NumeralLists, __file__)


@contrast_attack("numeral", paper_rank=2, lists=NUMERAL)
def numeral_slots(reading: Reading) -> Iterator[Slot]:
    """Slots of every noun with a numeral: to other plurals, from one to several, from several to one."""
    for item in reading.objects:
        if _countable(reading, item):
            yield from _slots(reading, item)


def _countable(reading: Reading, item: Object) -> bool:
    if item.word in NUMERAL.uncounted | LISTS.colors | SHARED.not_concrete:
        return False
    if reading.caption.parse[item.token].tag.startswith("NNP"):
        return False
    return not reading.rules.agreement or reading.visible(item)


def _quantity(reading: Reading, item: Object) -> tuple[int, int] | None:
    """(token, value) of the numeral or indefinite article of a noun."""
    parse, start = reading.caption.parse, reading.phrase_start(item)
    values = []
    for k in range(start, item.token):
        word = reading.lower[k]
        if parse[k].head != item.token:
            continue
        if word in ARTICLES and k == start:
            values.append((k, 1))
        elif (word in NUMBERS or word in DIGITS) and reading.tree.role(k) == "nummod":
            values.append((k, NUMBERS.get(word) or DIGITS[word]))
    return values[0] if len(values) == 1 and reading.is_free(values[0][0], values[0][0] + 1) else None


def _slots(reading: Reading, item: Object) -> Iterator[Slot]:
    quantity = _quantity(reading, item)
    if quantity is None:
        return
    token, value = quantity
    many = is_plural(reading.caption.parse, item.token)
    if many != (value > 1):
        return  # parsed wrongly, or "a two story house"
    barred = {value} | (reading.image.numbers if reading.rules.image_wide else set())
    articles = not reading.rules.plain_quantities

    def slot(one: bool, fixed: tuple[Fixed, ...], reason: str) -> Slot:
        allowed = reading.words.numerals_without(barred, one=one, articles=articles)
        return Slot(
            paradigm="numeral",
            first=token,
            last=token + 1,
            phrases="numeral",
            allowed=allowed,
            fixed=fixed,
            reason=reason,
        )

    if many:
        yield slot(False, (), f"plural, {value} before; no caption of the image says {{}}")
        if reading.rules.plain_quantities and token != reading.phrase_start(item):
            return  # "the two dogs", "these two dogs"
    elif reading.rules.image_wide and reading.image.may_be_several(item.word):
        return
    fixed = _inflected(reading, item, token, not many)
    if fixed is not None:
        word = "several, none but one before" if not many else "one, several before"
        yield slot(many, fixed, f"{word}; number and verbs agree with {{}}")


def _inflected(reading: Reading, item: Object, numeral: int, plural: bool) -> tuple[Fixed, ...] | None:
    """The noun and its verbs in the other number; None if other words would have to change too."""
    parsed, forms = reading.caption.parse[item.token], reading.words.forms
    form = other_number(parsed.text, item.word, forms, plural)
    if form is None or (plural and item.word in LISTS.mass) or not reading.is_free(item.token, item.token + 1):
        return None
    noun: Fixed = (item.token, item.token + 1, form)
    if not reading.rules.agreement:
        return (noun,)
    pronouns = NUMERAL.singular_pronouns if plural else NUMERAL.plural_pronouns
    between = reading.lower[numeral + 1 : item.token]
    if pronouns.intersection(reading.lower[item.token :]) or {"a", "an", "another", "each"}.intersection(between):
        return None
    after = reading.caption.parse[item.token + 1 : item.token + 2]
    if reading.shares_determiner(item) or any(token.tag.startswith("NN") for token in after):
        return None
    if any(token.tag == "VBG" and reading.related.is_visible(token.text.lower()) for token in after):
        return None  # "a chalk drawing"
    if any(k > item.token for k in reading.misread):
        return None
    verbs = agree(reading.tree, item.token, plural)
    return None if verbs is None else (noun, *verbs)
