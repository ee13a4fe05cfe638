"""Edits of a parsed caption, and what UniVSE's attacks (supplement B.2) draw them from. Truth is judged elsewhere.

The examples of B.2 bring nouns in bare ("and table", "in sky"). Here they have the article that captions mostly give
them, because a missing article would give the adversary away. `PrintedEditor` follows the examples.
"""

import random
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

from vse.adversaries.pools import (
    ADNOMINAL,
    NounEntry,
    Pool,
    RelationEntry,
    compound_start,
    determiner_of,
    is_plural,
    noun_phrase_start,
    relation_slot,
    relation_span,
)
from vse.adversaries.word_lists import SHARED, spellings
from vse.text.components import Components, Relation
from vse.text.inflector import inflector
from vse.text.parse import Parse

T = TypeVar("T")
PATIENCE = 20  # draws of a place and a word before another part is tried


@dataclass(frozen=True, slots=True)
class Edit:
    """Characters [start, end) of a caption give way to `replacement`; an insertion has start == end."""

    start: int
    end: int
    replacement: str


@dataclass(frozen=True, slots=True)
class Change:
    """Edits with the reason for them in words and the words (lemmas) they bring in."""

    edits: tuple[Edit, ...]
    reason: str
    words_in: tuple[str, ...]


@dataclass(frozen=True)
class Barred:
    """Lemmas that may not be swapped in, because the image's captions mention them or something like them."""

    nouns: frozenset[str]
    attributes: frozenset[str]
    relations: frozenset[str]


def with_similar(words: Iterable[str], groups: Sequence[frozenset[str]]) -> frozenset[str]:
    """The words and all members of the groups that they belong to, in every spelling."""
    spelled = spellings(words)
    return spellings(spelled.union(*(group for group in groups if group & spelled)))


def barred_as_printed(near: Iterable[str], lemmas: Iterable[str], relations: Iterable[str]) -> Barred:
    """What B.2 bars.

    Args:
        near: lemmas of all captions of the image.
        lemmas: lemmas of the caption.
        relations: relation words of the caption.
    """
    attributes = with_similar(lemmas, SHARED.published_similar_attributes)
    return Barred(nouns=spellings(near), attributes=attributes, relations=spellings(relations))


def barred_nouns(mentioned: Iterable[str]) -> frozenset[str]:
    """Nouns that are not irrelevant to an image whose captions have these lemmas."""
    return with_similar(mentioned, SHARED.similar_nouns)


def barred_attributes(mentioned: Iterable[str]) -> frozenset[str]:
    """Attributes too similar to these (B.2's groups and a few more)."""
    return with_similar(mentioned, SHARED.similar_attributes)


def barred_relations(mentioned: Iterable[str]) -> frozenset[str]:
    """Relation words that may mean the same as these."""
    return with_similar(mentioned, SHARED.similar_relations)


class Editor:
    """One caption with the words that may be put in: what an attack of UniVSE's type draws its edits from.

    Whether words are replaced or added, and which part, is drawn once and stays (`way`). If it were drawn again with
    every place and word, what fits most often would prevail, nouns over relations above all.
    """

    def __init__(
        self, text: str, parse: Parse, components: Components, pool: Pool, barred: Barred, rng: random.Random
    ) -> None:
        self.text, self.parse, self.components, self.rng = text, parse, components, rng
        self.nouns = [e for e in pool.nouns if e.word not in barred.nouns]
        self.attributes = [e for e in pool.attributes if e.word not in barred.attributes]
        self.relations = [e for e in pool.relations if e.word not in barred.relations]
        self._ways: list[str] = []
        self._draws = 0

    def way(self, *ways: str) -> str:
        """One of the ways, equally likely, for this and the next draws. After `PATIENCE` draws the next way follows."""
        self._ways = self._ways or self.rng.sample(ways, len(ways))
        self._draws += 1
        return self._ways[(self._draws - 1) // PATIENCE % len(ways)]

    def choose(self, items: Sequence[T]) -> T | None:
        """One of the items, equally likely; None if there is none."""
        return items[self.rng.randrange(len(items))] if items else None

    def may_append_noun(self, index: int) -> bool:
        """Whether "and" with another noun may follow the noun at `index`."""
        return True

    def may_replace_noun(self, index: int, entry: NounEntry) -> bool:
        """Whether an entry may take the place of the noun at `index`."""
        return True

    def noun_phrase(self, entry: NounEntry) -> str:
        """The phrase to insert for an entry if there was no noun: `a table`, `the sky`, `grass`."""
        return noun_phrase(entry)

    def relation_phrase(self, entry: RelationEntry, slot: str = ADNOMINAL) -> str | None:
        """The form of an entry for a relation of a slot, or after a noun; None if captions never use it so."""
        return entry.forms.get(slot)

    def replace_relation(self, triple: Relation, entry: RelationEntry) -> Change | None:
        """The words of a triple's relation, up to its object's noun phrase, become another relation."""
        span = relation_span(self.parse, triple)
        phrase = self.relation_phrase(entry, relation_slot(self.parse, triple))
        if span is None or phrase is None:
            return None
        return Change((self.over(*span, phrase),), f"relation {triple.word} becomes {entry.word}", (entry.word,))

    def replace_noun(self, index: int, entry: NounEntry, part: str) -> Change | None:
        """Replace a noun with another one of the same number.

        Args:
            index: token of the noun; a compound before it is replaced with it.
            entry: the new noun.
            part: what the noun is in its caption or triple ("object", "subject"), for the reason of the change.

        Returns:
            The edits, or None if the entry does not fit: it has no form in this number or does not go with the
            determiner, or the old noun is the first part of a hyphenated word.
        """
        form = entry.plural if is_plural(self.parse, index) else entry.singular
        if form is None or self.text[self.parse[index].end :].startswith("-"):
            return None
        if not self.may_replace_noun(index, entry):
            return None
        start, phrase_start = compound_start(self.parse, index), noun_phrase_start(self.parse, index)
        if not is_plural(self.parse, index):
            determiner = determiner_of(self.parse, index)
            if determiner == "a" and not entry.countable:
                return None
            if determiner == "" and start == phrase_start and entry.countable:
                form = self.noun_phrase(entry)
        edits = (*self.article_before(start, form), self.over(start, index + 1, form))
        return Change(edits, f"{part} {self.parse[index].text.lower()} becomes {entry.word}", (entry.word,))

    def is_glued(self, index: int) -> bool:
        """Whether the word goes on after the token: a possessive ending or a hyphen."""
        after = self.text[self.parse[index].end : self.parse[index].end + 1]
        return bool(after) and (after in "'\u2019-" or after.isalnum())

    def over(self, first: int, last: int, words: str) -> Edit:
        """An edit that replaces consecutive tokens, with a capital if the first of them has one.

        Args:
            first: position of the first token that is replaced.
            last: position behind the last one.
            words: the new text.
        """
        start, end = self.parse[first].start, self.parse[last - 1].end
        return Edit(start, end, _capital(words) if self.text[start : start + 1].isupper() else words)

    def before(self, index: int, words: str) -> tuple[Edit, ...]:
        """`words` inserted before a token, taking over the capital of a sentence's first word."""
        token = self.parse[index]
        if index == 0 and token.text[:1].isupper() and token.tag not in ("NNP", "NNPS"):
            return (Edit(token.start, token.end, f"{_capital(words)} {token.text[:1].lower()}{token.text[1:]}"),)
        return (Edit(token.start, token.start, f"{words} "),)

    def article_before(self, index: int, following: str) -> tuple[Edit, ...]:
        """The edit that makes an indefinite article before a token agree with the word that will follow it."""
        if index == 0 or self.parse[index - 1].text.lower() not in ("a", "an"):
            return ()
        token = self.parse[index - 1]
        right = article(following)
        if token.text.lower() == right:
            return ()
        return (Edit(token.start, token.end, _capital(right) if token.text[0].isupper() else right),)


def noun_phrase(entry: NounEntry) -> str:
    """A noun as training captions mostly write it: `a table`, `the sky`, `grass`; its plural if it has no singular."""
    if entry.singular is None:
        return entry.plural or entry.word
    determiner = entry.determiner or ("a" if entry.countable else "")
    if determiner == "a":
        determiner = article(entry.singular)
    return f"{determiner} {entry.singular}".strip()


_NUMBER = re.compile(r"\d+(?:,\d{3})*")
_SILENT_H = re.compile(r"herb(?!iv|er)")  # herb, herbs, herbal, herbed: as Americans say it, who wrote most captions


@cache
def article(following: str) -> str:
    """`a` or `an`, by the sound that the next word begins with; numbers as they are read out."""
    word = unicodedata.normalize("NFD", following.lower()).lstrip()
    number = _NUMBER.match(word)
    if number:
        digits = number.group().replace(",", "")
        leading = digits[: (len(digits) - 1) % 3 + 1]  # 11,000 is eleven thousand, 1100 may be one thousand
        return "an" if digits[0] == "8" or leading in ("11", "18") else "a"
    if not word[:1].isalpha():
        return "a"
    return "an" if _SILENT_H.match(word) else str(inflector().a(word)).split()[0]


def _capital(words: str) -> str:
    return words[:1].upper() + words[1:]


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """The text with all edits made; they must not overlap and refer to the given text."""
    position, pieces = 0, []
    for edit in sorted(edits, key=lambda e: (e.start, e.end)):
        assert position <= edit.start <= edit.end <= len(text), "edits overlap or lie outside the text"
        pieces += [text[position : edit.start], edit.replacement]
        position = edit.end
    return "".join((*pieces, text[position:]))
