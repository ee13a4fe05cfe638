"""Candidates as edits: a place in a caption, what may stand there, and what changes along with it.

A slot stands for as many adversarial captions as it has alternatives: tokens [first, last) give way to one phrase of a
shared list, while the `fixed` edits are always made. Tokens are those of the one tokeniser, so a slot means the same
thing in characters (strings, for people and parsers) and in vocabulary ids (batches).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vse.adversaries.univse.editor import Change, Edit
from vse.text.parse import ParsedToken
from vse.text.tokens import Token, words

NOTHING = "nothing"
"""Name of the list with one empty phrase: of slots that only have fixed edits."""

Phrases = Mapping[str, tuple[str, ...]]
Fixed = tuple[int, int, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """One place of one caption.

    allowed: bit k says whether phrase k of the list `phrases` may stand at tokens [first, last). fixed: (first, last,
    text) edits made with each of them, none overlapping another. reason: what is changed and why that is allowed, where
    `{}` stands for the phrase.
    """

    paradigm: str
    first: int
    last: int
    phrases: str
    allowed: int
    fixed: tuple[Fixed, ...]
    reason: str

    def __len__(self) -> int:
        return self.allowed.bit_count()

    def choices(self) -> Iterator[int]:
        """Numbers of the phrases that may stand here, in ascending order."""
        return bits_of(self.allowed)

    def spans(self, phrase: str) -> list[Fixed]:
        """All edits of one alternative, in order of their place."""
        varying = [(self.first, self.last, phrase)] if self.last > self.first else []
        return sorted([*varying, *self.fixed])


def bits_of(mask: int) -> Iterator[int]:
    """Positions of the ones of a number, ascending."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def change_of(
    slot: Slot, choice: int, phrases: Phrases, text: str, tokens: Sequence[Token] | Sequence[ParsedToken]
) -> Change:
    """The edits in characters that make one alternative, its reason with every token from -> to, and the words put in.

    A phrase that begins a sentence takes over the capital.

    Args:
        slot: The place in the caption.
        choice: Number of the phrase in the slot's list.
        phrases: The lists of phrases by name.
        text: The caption.
        tokens: Its tokens, to which the slot's positions refer.
    """
    phrase = phrases[slot.phrases][choice]
    edits, read = [], []
    for first, last, new in slot.spans(phrase):
        start, end = tokens[first].start, tokens[last - 1].end
        shown = capital(new) if text[start : start + 1].isupper() else new
        edits.append(Edit(start, end, shown))
        read.append(f"{text[start:end].lower()} -> {new}")
    put_in = {word for _, _, new in slot.spans(phrase) for word in words(new)}
    reason = f"{slot.paradigm}: {'; '.join(read)} ({slot.reason.format(phrase)})"
    return Change(tuple(edits), reason, tuple(sorted(put_in)))


def read_as(slot: Slot, choice: int, phrases: Phrases, lower: Sequence[str]) -> tuple[str, ...]:
    """The adversarial caption of one alternative as lower-case tokens.

    Args:
        slot: The place in the caption.
        choice: Number of the phrase in the slot's list.
        phrases: The lists of phrases by name; only the slot's own is read.
        lower: The caption's tokens in lower case.
    """
    done: list[str] = []
    position = 0
    for first, last, new in slot.spans(phrases[slot.phrases][choice]):
        done += [*lower[position:first], *words(new)]
        position = last
    return (*done, *lower[position:])


def capital(phrase: str) -> str:
    """The phrase with a capital at its beginning, if there is one that reads the same in lower case (none of ß)."""
    first = phrase[:1]
    return first.upper() + phrase[1:] if first.upper().lower() == first else phrase


def is_free(text: str, tokens: Sequence[Token] | Sequence[ParsedToken], first: int, last: int) -> bool:
    """Whether consecutive tokens stand by themselves: no hyphen, apostrophe or letter is joined to them.

    Args:
        text: The caption.
        tokens: Its tokens.
        first: Position of the first of them.
        last: Position behind the last one.
    """
    start, end = tokens[first].start, tokens[last - 1].end
    before, after = text[start - 1 : start], text[end : end + 1]
    joined = ("-", "'", "\u2019", "\u2010", "\u2011", "/", "_", "&")
    return not any(side in joined or side.isalnum() for side in (before, after) if side)
