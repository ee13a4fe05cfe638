"""Blanks in captions: nouns and prepositions that may be left out, and the words on either side of them.

VSE-C, section 4.4: nouns and relational words are "concept" words. In training one of a caption's is drawn in every
epoch; Table 7 asks for nouns, prepositions and both. The paper does not say which blanks of a test caption are asked
for; here all of them are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from vse.data import keyed
from vse.data.ragged import Ragged
from vse.text.parse import Parse

KINDS = ("noun", "preposition")
_PARTS_OF_SPEECH = {"NOUN": 0, "ADP": 1}  # coarse tag -> position in KINDS


@dataclass(frozen=True, eq=False)
class Blanks:
    """Words of captions that may be left out.

    Args:
        tokens: Words of each caption as rows of a vocabulary; a word that it lacks is `unknown`.
        caption: (blanks,) row of the caption.
        position: (blanks,) of the word in its caption.
        kind: (blanks,) position in `KINDS`.
        unknown: Number of words in the vocabulary. `start` and `end` come next.
    """

    tokens: Ragged
    caption: np.ndarray
    position: np.ndarray
    kind: np.ndarray
    unknown: int

    def __len__(self) -> int:
        return len(self.caption)

    @property
    def answer(self) -> Int[np.ndarray, " blanks"]:
        """The word of each blank, as a row of the vocabulary."""
        return self.tokens.values[self.tokens.offsets[self.caption] + self.position]

    def contexts(self, rows: Int[np.ndarray, " batch"]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Words before some blanks, and words after them from the last to the next one.

        Each side begins with a marker, `unknown` + 1 for the beginning and `unknown` + 2 for the end of the caption, so
        that none is empty.

        Args:
            rows: Positions of blanks.

        Returns:
            before (batch, time), their lengths, after (batch, time), their lengths; padded with 0.
        """
        padded, _ = self.tokens.pad(self.caption[rows])
        lengths, place = self.tokens.lengths[self.caption[rows]], self.position[rows]
        before = np.concatenate([np.full((len(rows), 1), self.unknown + 1), padded], axis=1)
        last = lengths[:, None] + 1 - np.arange(before.shape[1])[None, :]
        after = np.take_along_axis(before, last.clip(0, before.shape[1] - 1), axis=1)
        after[:, 0] = self.unknown + 2
        return _cut(before, place + 1), place + 1, _cut(after, lengths - place), lengths - place


def _cut(sequences: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Sequences up to the longest length, 0 beyond the length of each."""
    steps = np.arange(int(lengths.max(initial=1)))
    return sequences[:, : len(steps)] * (steps[None, :] < lengths[:, None])


def blanks_of(parses: Sequence[Parse], words: Sequence[str]) -> Blanks:
    """Every noun and preposition of captions that a vocabulary holds.

    Args:
        parses: Of the captions.
        words: The vocabulary.
    """
    row = {word: k for k, word in enumerate(words)}
    tokens = [[row.get(token.text.lower(), len(words)) for token in parse] for parse in parses]
    rows = [
        (caption, position, _PARTS_OF_SPEECH[token.pos])
        for caption, parse in enumerate(parses)
        for position, token in enumerate(parse)
        if token.pos in _PARTS_OF_SPEECH and tokens[caption][position] < len(words)
    ]
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return Blanks(Ragged.of(tokens), table[:, 0], table[:, 1], table[:, 2], len(words))


def drawn_blanks(caption: Int[np.ndarray, " blanks"], seed: int, epoch: int) -> Int[np.ndarray, " captions"]:
    """Positions of one blank for each caption that has any, drawn for an epoch.

    Args:
        caption: Of each blank, ascending.
        seed: Of the training.
        epoch: Its number.
    """
    captions, first, count = np.unique(caption, return_index=True, return_counts=True)
    draw = keyed.uniform(keyed.keys(seed, epoch, "blanks", captions), 1)[:, 0]
    return first + np.minimum((draw * count).astype(np.int64), count - 1)
