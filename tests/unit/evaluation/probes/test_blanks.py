"""Blanks and their contexts, on captions written by hand; draws of training."""

from collections import Counter

import numpy as np
import pytest

from vse.evaluation.probes.blanks import KINDS, blanks_of, drawn_blanks
from vse.text.parse import Parse, ParsedToken

CAPTIONS = (
    "A/DET dog/NOUN sits/VERB on/ADP a/DET mat/NOUN",
    "cats/NOUN",
    "",
    "Near/ADP London/PROPN of/ADP course/NOUN",
)
VOCABULARY = ("a", "dog", "on", "mat", "near", "cats", "sits", "course")
UNKNOWN, START, END = 8, 9, 10


def parse_of(tagged: str) -> Parse:
    pairs = [word.rpartition("/")[::2] for word in tagged.split()]
    return tuple(ParsedToken(text, 0, 0, text.lower(), "", str(pos), 0, "") for text, pos in pairs)


def test_nouns_and_prepositions_of_the_vocabulary_are_blanks() -> None:
    blanks = blanks_of([parse_of(caption) for caption in CAPTIONS], VOCABULARY)
    rows = zip(blanks.caption, blanks.answer, blanks.kind, strict=True)
    words = [(int(caption), VOCABULARY[answer], KINDS[kind]) for caption, answer, kind in rows]
    assert words == [
        (0, "dog", "noun"),
        (0, "on", "preposition"),
        (0, "mat", "noun"),
        (1, "cats", "noun"),
        (3, "near", "preposition"),
        (3, "course", "noun"),  # "London" is a name, and the vocabulary lacks "of"
    ]
    assert blanks.tokens.row(3).tolist() == [4, UNKNOWN, UNKNOWN, 7]


def test_contexts_are_the_words_on_either_side() -> None:
    parses = [parse_of(caption) for caption in CAPTIONS]
    blanks = blanks_of(parses, VOCABULARY)
    for rows in (np.arange(6), np.array([3]), np.array([5, 0, 3])):
        before, before_lengths, after, after_lengths = blanks.contexts(rows)
        assert before.shape[1] == before_lengths.max()
        assert after.shape[1] == after_lengths.max()
        for row, *sides in zip(rows, before, before_lengths, after, after_lengths, strict=True):
            left, left_length, right, right_length = sides
            caption, position = blanks.tokens.row(blanks.caption[row]).tolist(), int(blanks.position[row])
            assert left[:left_length].tolist() == [START, *caption[:position]]
            assert right[:right_length].tolist() == [END, *caption[position + 1 :][::-1]]
            assert not left[left_length:].any()
            assert not right[right_length:].any()


def test_no_captions_have_no_blanks() -> None:
    assert len(blanks_of([], VOCABULARY)) == 0
    assert len(blanks_of([parse_of("runs/VERB")], VOCABULARY)) == 0


def test_one_blank_of_each_caption_is_drawn_evenly() -> None:
    caption = np.repeat([0, 2, 5], [3, 1, 4])
    drawn = np.array([drawn_blanks(caption, seed, epoch) for seed in range(40) for epoch in range(30)])
    assert (caption[drawn] == [0, 2, 5]).all()
    for column, number in ((0, 3), (2, 4)):
        counts = np.array(list(Counter(drawn[:, column].tolist()).values()))
        assert len(counts) == number
        assert ((counts - 1200 / number) ** 2 / (1200 / number)).sum() < 16  # chi-squared, p about 0.001
    assert (drawn_blanks(caption, 1, 2) == drawn_blanks(caption, 1, 2)).all()


@pytest.mark.parametrize("rows", [np.arange(0)])
def test_nothing_is_drawn_of_nothing(rows: np.ndarray) -> None:
    assert len(drawn_blanks(rows, 0, 0)) == 0
