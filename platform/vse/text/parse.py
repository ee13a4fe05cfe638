"""A dependency parse as plain data, whichever parser made it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ParsedToken:
    """One token: character offsets into the caption, lower-case lemma, fine tag, coarse part of speech (UPOS),
    index of its head within the sentence's tokens (a root points to itself) and dependency label."""

    text: str
    start: int
    end: int
    lemma: str
    tag: str
    pos: str
    head: int
    dep: str


Parse = tuple[ParsedToken, ...]
