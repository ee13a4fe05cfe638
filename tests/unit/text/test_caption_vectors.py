"""Co-occurrences against a loop, the factorisation against a dense one, and what the vectors know."""

import math

import numpy as np
import pytest

from vse.errors import InputError
from vse.text.caption_vectors import (
    SMOOTHING,
    WINDOW,
    caption_vectors,
    cooccurrences,
    factors,
    positive_information,
)

TEXTS = [
    "A red apple lies on a table",
    "a red pear lies on the table.",
    "Two dogs chase a red ball in the park near a lake",
    "a dog chases a ball",
    "dogs",
    "",
]
WORDS = sorted({w for t in TEXTS for w in t.lower().replace(".", " .").split()})


def _naive(words):
    counts = np.zeros((len(words), len(words)))
    for text in TEXTS:
        tokens = text.lower().replace(".", " .").split()
        for i, first in enumerate(tokens):
            for j, second in enumerate(tokens):
                if 0 < abs(i - j) <= WINDOW:
                    counts[words.index(first), words.index(second)] += 1 / abs(i - j)
    return counts


def test_cooccurrences_against_a_loop():
    np.testing.assert_allclose(cooccurrences(TEXTS, WORDS).toarray(), _naive(WORDS))


def test_information_and_factors_against_dense_ones():
    counts = _naive(WORDS)
    p = counts.sum(1) ** SMOOTHING / (counts.sum(1) ** SMOOTHING).sum()
    dense = np.zeros_like(counts)
    for i, j in np.argwhere(counts):
        dense[i, j] = max(0, math.log(counts[i, j] / (counts[i].sum() * p[j])))
    dense = (dense + dense.T) / 2
    matrix = positive_information(cooccurrences(TEXTS, WORDS))
    np.testing.assert_allclose(matrix.toarray(), dense, atol=1e-12)
    values, vectors = np.linalg.eigh(dense)
    best = (vectors[:, -5:] * values[-5:]) @ vectors[:, -5:].T
    rows = factors(matrix, 5)
    scale = np.square(vectors[:, -5:] * np.sqrt(values[-5:])).sum(1).mean()
    np.testing.assert_allclose(rows @ rows.T * scale, best, atol=1e-5)


def test_vectors_of_a_vocabulary():
    vectors = caption_vectors(TEXTS, ("<pad>", "red", "zebra", "ball"))
    assert vectors.found.tolist() == [False, True, False, True]
    assert not vectors.vectors[~vectors.found].any()
    assert vectors.dim == len(WORDS) - 2
    again = caption_vectors(TEXTS, ("ball", "red"))
    np.testing.assert_array_equal(again.vectors, vectors.vectors[[3, 1]])
    assert again.fingerprint != vectors.fingerprint


def test_words_used_alike_are_near():
    texts = [f"a {fruit} on a {place}" for fruit in ("apple", "pear") for place in ("table", "plate", "shelf")]
    texts += [f"a {pet} runs through the {ground}" for pet in ("dog", "cat") for ground in ("park", "grass", "yard")]
    words = ("apple", "pear", "dog", "cat")
    rows = caption_vectors(texts, words).vectors
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    near = rows @ rows.T
    assert near[0, 1] > near[0, 2] + 0.3
    assert near[2, 3] > near[1, 3] + 0.3


def test_too_few_words():
    with pytest.raises(InputError, match="fewer than three different words"):
        caption_vectors(["dog dog"], ("dog",))


@pytest.mark.parametrize("texts", [["dog", "cat", "bird"], ["dog dog", "cat", "bird"]])
def test_captions_of_one_word_tell_nothing(texts):
    with pytest.raises(InputError, match=r"no two words occur in one training caption.*text\.word_vectors=FILE"):
        caption_vectors(texts, ("dog",))
