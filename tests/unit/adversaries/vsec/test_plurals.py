"""Plurals of every noun of the word lists, held against WordNet's exceptions and LemmInflect (`write_plurals`)."""

from dataclasses import fields
from pathlib import Path

import pytest

from vse.adversaries.vsec.grammar import NUMBER, library_plural, library_singular, other_number
from vse.adversaries.vsec.lists import LISTS
from vse.adversaries.word_lists import SHARED, spellings
from vse.text.lexicon.compact import knowledge

TABLE = Path(__file__).parents[3] / "data" / "plurals.tsv"
HEAD = "noun\twordnet\tlemminflect\tjudged"
_NO_NOUNS = {"preposition_sets", "colors", "personal", "enclosures"}


def read_table() -> dict[str, tuple[frozenset[str], ...]]:
    """Noun -> plurals by WordNet's exceptions, by LemmInflect, and judged by a person."""
    head, *rows = TABLE.read_text().splitlines()
    assert head == HEAD
    split = (row.split("\t") for row in rows)
    return {noun: tuple(frozenset(column.split()) for column in columns) for noun, *columns in split}


def listed_nouns() -> set[str]:
    """Nouns of the shipped lexicon and word lists, of letters a to z."""
    words = set(knowledge().lexicon.words).union(*SHARED.similar_nouns, *SHARED.spellings, NUMBER.irregular)
    for field in fields(LISTS):
        value = getattr(LISTS, field.name)
        words |= value if isinstance(value, frozenset) and field.name not in _NO_NOUNS else set()
    return {word for word in words if word.isalpha() and word.isascii()}


def test_no_plural_is_one_that_nobody_attests() -> None:
    table = read_table()
    assert listed_nouns() == set(table), "run write_plurals"
    wrong, several = {}, 0
    for noun, sources in table.items():
        plural = other_number(noun, noun, {}, plural=True)
        if noun in LISTS.mass or plural is None:
            continue
        several += 1
        if plural not in frozenset().union(*sources):
            wrong[noun] = plural
    assert wrong == {}
    assert several > 3800


def test_plurals_lead_back_to_their_noun() -> None:
    table = read_table()
    wrong = {}
    for noun in table:
        plural = library_plural(noun)
        if plural in (None, noun) or noun in LISTS.mass:
            continue
        back = library_singular(plural)
        if back is None or (back not in spellings([noun]) and library_plural(back) != plural):
            wrong[noun] = (plural, back)
    assert wrong == {}


@pytest.mark.parametrize(
    ("noun", "plural"),
    [
        ("gentleman", "gentlemen"),
        ("fisherman", "fishermen"),
        ("german", "germans"),
        ("clothes", None),
        ("glasses", None),
        ("skis", None),
        ("tennis", None),
        ("wildlife", None),
        ("sheep", None),
        ("bus", "buses"),
        ("lens", "lenses"),
        ("thief", "thieves"),
    ],
)
def test_plurals(noun: str, plural: str | None) -> None:
    assert other_number(noun, noun, {}, plural=True) == plural


@pytest.mark.parametrize(
    ("form", "lemma", "singular"),
    [
        ("gentlemen", "gentleman", "gentleman"),
        ("mustaches", "mustache", "mustache"),
        ("beanies", "beanie", "beanie"),
        ("clothes", "clothes", None),
        ("glasses", "glasses", None),
        ("glasses", "glass", "glass"),
    ],
)
def test_singulars(form: str, lemma: str, singular: str | None) -> None:
    assert other_number(form, lemma, {}, plural=False) == singular


def test_forms_of_training_captions_come_first() -> None:
    assert other_number("roof", "roof", {"roof": ("roof", "rooves")}, plural=True) == "rooves"
