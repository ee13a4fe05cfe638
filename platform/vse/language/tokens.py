"""The one tokeniser: vocabulary, word vectors and parser all mean the same thing by a token."""

import functools
import re
import unicodedata
from dataclasses import dataclass

# Order matters: contractions split before the apostrophe ("is" + "n't", "man" + "'s"), as treebanks write them;
# numbers keep inner separators; any other visible character that is not part of a word stands alone. Marks (vowel
# signs, points, accents) belong to the character before them: without that, words of Devanagari or Thai fall to pieces.
_PIECES = r"""
    \d+(?:[.,:]\d+)*                       # 12  3,000  10:30
  | [^\W\d_]+(?=n't\b)                     # is|n't  (the word before a negation)
  | n't\b                                  # n't
  | '(?:s|re|ve|ll|d|m)\b                 # 's 're 've 'll 'd 'm
  | [^\W\d_]+(?:[MARKS]+[^\W\d_]*)*       # letters of any script, with their marks
  | (?:[^\w\s]|_)[MARKS]*                  # punctuation and symbols, one by one
"""
_PLANES_WITH_MARKS = (range(0x20000), range(0xE0000, 0xE0200))  # the others hold ideographs or nothing


@functools.cache
def _pieces() -> re.Pattern[str]:
    """The pattern with every mark of Unicode (categories Mn, Mc, Me) that this Python knows, as ranges."""
    marks = [k for plane in _PLANES_WITH_MARKS for k in plane if unicodedata.category(chr(k))[0] == "M"]
    ranges: list[list[int]] = []
    for mark in marks:
        if ranges and mark == ranges[-1][1] + 1:
            ranges[-1][1] = mark
        else:
            ranges.append([mark, mark])
    written = "".join(f"\\U{first:08x}-\\U{last:08x}" for first, last in ranges)
    return re.compile(_PIECES.replace("MARKS", written), re.VERBOSE | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Token:
    """A stretch of a text: `source[start:end]`, with a typographic apostrophe as the one of keyboards."""

    text: str
    start: int
    end: int


def nfc(text: str) -> str:
    """A text in Unicode's composed form, in which \u00e9 is one letter however it was typed.

    Whoever reads captions from outside passes them through here, so that one word has one spelling in vocabularies,
    vectors and parses; what is tokenised keeps the offsets of the text that is given.
    """
    return unicodedata.normalize("NFC", text)


def as_caption(text: str) -> str:
    """A text as data sets keep their captions: composed, with single spaces."""
    return nfc(" ".join(text.split()))


def tokenize(text: str) -> tuple[Token, ...]:
    """Tokens of `text` in order, with character offsets; white space and control characters separate and vanish.

    An apostrophe is ' however it was typed: "don\u2019t" has the tokens of "don't", with offsets into what was given.
    """
    return tuple(
        Token(match.group(), match.start(), match.end())
        for match in _pieces().finditer(text.replace("\u2019", "'"))
        if match.group().isprintable()
    )


def words(text: str) -> tuple[str, ...]:
    """Lower-case token texts: what the vocabulary counts and what encoders look up."""
    return tuple(token.text.lower() for token in tokenize(text))
