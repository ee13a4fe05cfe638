"""Which tokens of a pretrained encoder make up the words of a caption.

Encoders cut words into pieces. A family reads words: adversaries exchange them, saliency and relevance maps are given
for each, and a caption has one length whichever encoder reads it. So the state of a word is the mean over its pieces.
The encoder reads the lower-case words with single spaces between them. An adversary then differs from its caption in
the exchanged words alone, and not in capital letters or spacing.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float32


def lengths_of(captions: Sequence[Sequence[str]]) -> np.ndarray:
    """States of each caption: of its beginning, its words, and its end. A caption without a word has one empty word."""
    return np.array([max(1, len(words)) + 2 for words in captions], dtype=np.int64)


def shares(
    words: Sequence[str], offsets: Sequence[tuple[int, int]], special: Sequence[int]
) -> Float32[np.ndarray, "states tokens"]:
    """How a caption's states are mixed from the states of its tokens. A row sums to one, or is zero without a token.

    A word has the tokens that overlap with it. The beginning and the end have the special tokens before and behind all
    others. Words behind the last token that the model reads have none.

    Args:
        words: of the caption, which the encoder read with single spaces between them.
        offsets: first and last character (exclusive) of each token.
        special: 1 for each token that the tokenizer adds.
    """
    ends = np.cumsum([len(word) + 1 for word in words], dtype=np.int64) - 1
    starts = ends - [len(word) for word in words]
    first, last = np.array(offsets, dtype=np.int64).reshape(-1, 2).T
    added = np.array(special, dtype=bool)
    inner = np.flatnonzero(~added)
    place = np.arange(len(added))
    mixed = np.zeros((max(1, len(words)) + 2, len(added)), dtype=np.float32)
    mixed[1 : len(words) + 1] = (first < ends[:, None]) & (last > starts[:, None]) & ~added
    mixed[0] = added & (place < (inner[0] if len(inner) else 1))
    mixed[-1] = added & (place > (inner[-1] if len(inner) else 0))
    return mixed / np.maximum(mixed.sum(1, keepdims=True), 1)
