"""One random edit of each of UniVSE's attacks (supplement B.2) on a parsed caption; truth is judged elsewhere.

The examples of B.2 bring nouns in bare ("and table", "in sky"); here they have the article that captions mostly give
them, whose lack would tell an adversary.
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
    AttributeEntry,
    NounEntry,
    Pool,
    compound_start,
    determiner_of,
    hyphenated_start,
    is_plural,
    noun_phrase_start,
    relation_slot,
    relation_span,
)
from vse.adversaries.word_lists import SHARED
from vse.text.components import Attribute, Components, Relation
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
    """The words and all members of the groups that they belong to."""
    found = frozenset(words)
    return found.union(*(group for group in groups if group & found))


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
    """Draws edits of one caption from one pool, for one adversary. Methods return None where the drawn place or word
    does not fit.

    Which part is changed, and whether words are replaced or added, is drawn once and stays (`_way`): drawn anew with
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

    def object(self) -> Change | None:
        """Replace a noun by an irrelevant one, or append one after it, equally likely."""
        item, entry = self._draw(self.components.objects), self._draw(self.nouns)
        if item is None or entry is None:
            return None
        if self._way("replace", "append") == "replace":
            return self._replace_noun(item.token, entry, "object")
        return self._append_noun(item.token, item.word, entry)

    def attribute(self) -> Change | None:
        """Replace the attribute of a pair; in a caption without pairs insert one before a noun."""
        entry = self._draw(self.attributes)
        if entry is None:
            return None
        pair = self._draw(self.components.attributes)
        if pair is not None:
            return self._replace_attribute(pair, entry)
        item = self._draw(self.components.objects)
        return None if item is None else self._insert_attribute(item.token, item.word, entry)

    def relation(self) -> Change | None:
        """Replace subject, relation or object of a triple, equally likely; without triples form a fake relation."""
        triple = self._draw(self.components.relations)
        if triple is None:
            return self._fake_relation()
        part = self._way("subject", "relation", "object")
        if part == "relation":
            return self._replace_relation(triple)
        entry = self._draw(self.nouns)
        if entry is None:
            return None
        return self._replace_noun(triple.subject_token if part == "subject" else triple.object_token, entry, part)

    def _way(self, *ways: str) -> str:
        """One of them, equally likely, for this and the next draws; the others have their turn where it never fits."""
        self._ways = self._ways or self.rng.sample(ways, len(ways))
        self._draws += 1
        return self._ways[(self._draws - 1) // PATIENCE % len(ways)]

    def _draw(self, items: Sequence[T]) -> T | None:
        return items[self.rng.randrange(len(items))] if items else None

    def _append_noun(self, index: int, word: str, entry: NounEntry) -> Change | None:
        if self._is_glued(index):
            return None
        end = self.parse[index].end
        edit = Edit(end, end, f" and {noun_phrase(entry)}")
        return Change((edit,), f"append {entry.word} to {word}", (entry.word,))

    def _replace_attribute(self, pair: Attribute, entry: AttributeEntry) -> Change | None:
        token, start = self.parse[pair.token], hyphenated_start(self.parse, pair.token)
        if self._is_glued(pair.token):
            return None
        edits = (*self._article(start, entry.form), self._over(start, pair.token + 1, entry.form))
        return Change(edits, f"attribute {token.text.lower()} of {pair.noun} becomes {entry.word}", (entry.word,))

    def _replace_noun(self, index: int, entry: NounEntry, part: str) -> Change | None:
        form = entry.plural if is_plural(self.parse, index) else entry.singular
        if form is None or self.text[self.parse[index].end :].startswith("-"):
            return None
        start, phrase_start = compound_start(self.parse, index), noun_phrase_start(self.parse, index)
        if not is_plural(self.parse, index):
            determiner = determiner_of(self.parse, index)
            if determiner == "a" and not entry.countable:
                return None
            if determiner == "" and start == phrase_start and entry.countable:
                form = noun_phrase(entry)
        edits = (*self._article(start, form), self._over(start, index + 1, form))
        return Change(edits, f"{part} {self.parse[index].text.lower()} becomes {entry.word}", (entry.word,))

    def _insert_attribute(self, index: int, noun: str, entry: AttributeEntry) -> Change:
        start = compound_start(self.parse, index)
        edits = (*self._article(start, entry.form), *self._before(start, entry.form))
        return Change(edits, f"{noun} becomes {entry.word}", (entry.word,))

    def _replace_relation(self, triple: Relation) -> Change | None:
        span = relation_span(self.parse, triple)
        entry = self._draw(self.relations)
        if entry is None or span is None:
            return None
        phrase = entry.forms.get(relation_slot(self.parse, triple))
        if phrase is None:
            return None
        edit = self._over(*span, phrase)
        return Change((edit,), f"relation {triple.word} becomes {entry.word}", (entry.word,))

    def _fake_relation(self) -> Change | None:
        item, noun, entry = self._draw(self.components.objects), self._draw(self.nouns), self._draw(self.relations)
        if item is None or noun is None or entry is None or ADNOMINAL not in entry.forms:
            return None
        words_in = (entry.word, noun.word)
        if self._way("subject", "object") == "subject":
            if self._is_glued(item.token):
                return None
            end = self.parse[item.token].end
            edit = Edit(end, end, f" {entry.forms[ADNOMINAL]} {noun_phrase(noun)}")
            return Change((edit,), f"{item.word} as subject of {entry.word} {noun.word}", words_in)
        start = noun_phrase_start(self.parse, item.token)
        edits = self._before(start, f"{noun_phrase(noun)} {entry.forms[ADNOMINAL]}")
        return Change(edits, f"{item.word} as object of {noun.word} {entry.word}", words_in)

    def _is_glued(self, index: int) -> bool:
        """Whether the word goes on after the token: a possessive ending or a hyphen."""
        after = self.text[self.parse[index].end : self.parse[index].end + 1]
        return bool(after) and (after in "'\u2019-" or after.isalnum())

    def _over(self, first: int, last: int, words: str) -> Edit:
        """Tokens [first, last) give way to `words`, with a capital where the first of them had one."""
        start, end = self.parse[first].start, self.parse[last - 1].end
        return Edit(start, end, _capital(words) if self.text[start : start + 1].isupper() else words)

    def _before(self, index: int, words: str) -> tuple[Edit, ...]:
        """`words` inserted before a token, taking over the capital of a sentence's first word."""
        token = self.parse[index]
        if index == 0 and token.text[:1].isupper() and token.tag not in ("NNP", "NNPS"):
            return (Edit(token.start, token.end, f"{_capital(words)} {token.text[:1].lower()}{token.text[1:]}"),)
        return (Edit(token.start, token.start, f"{words} "),)

    def _article(self, index: int, following: str) -> tuple[Edit, ...]:
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
