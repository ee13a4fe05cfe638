"""The one tokeniser: vocabulary, word vectors and parser all mean the same thing by a token."""

import re
from dataclasses import dataclass

# Order matters: contractions split before the apostrophe ("is" + "n't", "man" + "'s"), as treebanks write them;
# numbers keep inner separators; any other visible character that is not part of a word stands alone.
_PIECES = re.compile(
    r"""
    \d+(?:[.,:]\d+)*                       # 12  3,000  10:30
  | [^\W\d_]+(?=n['\u2019]t\b)             # is|n't  (the word before a negation)
  | n['\u2019]t\b                          # n't
  | ['\u2019](?:s|re|ve|ll|d|m)\b          # 's 're 've 'll 'd 'm
  | (?:[^\W\d_][\u0300-\u036f]*)+          # letters of any script, with combining marks
  | [^\w\s]|_                              # punctuation and symbols, one by one
    """,
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """A stretch of a text: `text == source[start:end]`."""

    text: str
    start: int
    end: int


def tokenize(text: str) -> tuple[Token, ...]:
    """Tokens of `text` in order, with character offsets; white space and control characters separate and vanish."""
    return tuple(
        Token(match.group(), match.start(), match.end())
        for match in _PIECES.finditer(text)
        if match.group().isprintable()
    )


def words(text: str) -> tuple[str, ...]:
    """Lower-case token texts: what the vocabulary counts and what encoders look up."""
    return tuple(token.text.lower() for token in tokenize(text))
