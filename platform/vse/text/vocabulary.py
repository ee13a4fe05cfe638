"""Words and their numbers, in an order that depends on nothing but the captions."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from vse.config import fingerprint
from vse.errors import InputError
from vse.text.tokens import words

PAD, START, END, UNKNOWN = 0, 1, 2, 3
SPECIAL = ("<pad>", "<start>", "<end>", "<unk>")


@dataclass(frozen=True)
class Vocabulary:
    """Ids 0 to 3 are padding, start, end and unknown; then words, the most frequent first, ties in alphabetical order.

    `counts` holds for each word how often it was seen, in the same order.
    """

    words: tuple[str, ...]
    counts: tuple[int, ...]

    def __post_init__(self) -> None:
        assert len(self.words) == len(self.counts), "one count a word"
        assert len(set(self.words)) == len(self.words), "words must differ"
        assert not set(self.words) & set(SPECIAL), "special tokens are no words"

    @cached_property
    def ids(self) -> dict[str, int]:
        """Word -> id, special tokens not included."""
        return {word: k for k, word in enumerate(self.words, start=len(SPECIAL))}

    @cached_property
    def fingerprint(self) -> str:
        """Eight hexadecimal digits over the words in their order."""
        return fingerprint(self.words)

    def __len__(self) -> int:
        """Number of ids, the special ones included: rows of an embedding table."""
        return len(self.words) + len(SPECIAL)

    def __contains__(self, word: object) -> bool:
        return word in self.ids

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Ids of lower-case words; what is not in the vocabulary becomes the unknown id."""
        return [self.ids.get(token, UNKNOWN) for token in tokens]

    def decode(self, ids: Sequence[int]) -> list[str]:
        """The words or special tokens of ids."""
        return [SPECIAL[k] if k < len(SPECIAL) else self.words[k - len(SPECIAL)] for k in ids]

    def to_json(self) -> str:
        return json.dumps({"words": self.words, "counts": self.counts}, ensure_ascii=False, indent=0) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, where: str = "vocabulary") -> "Vocabulary":
        """Parse the output of `to_json`; raises InputError naming `where` for anything else."""
        try:
            data = json.loads(text)
            words_read, counts = data["words"], data["counts"]
            if not all(isinstance(w, str) for w in words_read) or not all(type(n) is int for n in counts):
                raise TypeError("words must be text and counts integers")
            if len(words_read) != len(counts) or len(set(words_read)) != len(counts) or set(words_read) & set(SPECIAL):
                raise ValueError("words must differ and have one count each")
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{where}: not a vocabulary file: {error}") from None
        return cls(tuple(words_read), tuple(counts))


def build_vocabulary(
    captions: Iterable[str], min_count: float = 1, extra: Mapping[str, int] | None = None
) -> Vocabulary:
    """Build the vocabulary of training captions.

    Args:
        captions: texts.
        min_count: smallest count of a word if 1 or more; below 1, the smallest share of the number of captions.
        extra: further words (lemmas of parsed components) with their counts, under the same rule. A word in both has
            the larger count.

    Raises:
        InputError: `min_count` is negative, or above 1 and not a whole number.
    """
    if min_count < 0 or (min_count > 1 and min_count != int(min_count)):
        raise InputError(f"min_count={min_count}: must be a whole number >= 1, or a share of the captions below 1")
    number = 0
    counts: Counter[str] = Counter()
    for text in captions:
        number += 1
        counts.update(words(text))
    for word, count in (extra or {}).items():
        counts[word] = max(counts[word], count)
    least = min_count if min_count >= 1 else max(1.0, min_count * number)
    kept = sorted((w for w, n in counts.items() if n >= least and w not in SPECIAL), key=lambda w: (-counts[w], w))
    return Vocabulary(tuple(kept), tuple(counts[w] for w in kept))
