"""Whether captions are English, which the bundled parser, the lexicon and the attacks expect."""

from collections.abc import Sequence

from vse.text.tokens import words

_SAMPLE = 1000  # captions that are looked at
_FEWEST = 0.2  # share of captions with a function word; English captions have nearly always one
# Of captions. "in", "is", "on", "at", "over" and "to" are left out, which German, Dutch, French or Danish have, too.
_FUNCTION_WORDS = frozenset(
    {"a", "and", "are", "behind", "beside", "by", "down", "from", "front", "his", "into", "near", "next", "of"}
    | {"some", "the", "their", "them", "there", "they", "through", "two", "up", "while", "with"}
)


def are_english(texts: Sequence[str]) -> bool:
    """Whether at least a fifth of a sample of captions contains an English function word; true without captions."""
    sample = texts[:: max(1, len(texts) // _SAMPLE)]
    hits = sum(any(word.lower() in _FUNCTION_WORDS for word in words(text)) for text in sample)
    return hits >= _FEWEST * len(sample)
