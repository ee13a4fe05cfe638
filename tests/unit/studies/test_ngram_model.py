"""Kneser-Ney: probabilities sum to one, equal the formula written out, and prefer captions to shuffles."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vse.studies.ngram_model import END, UNKNOWN, NgramModel
from vse.text.tokens import words

CAPTIONS = ["A dog runs.", "A dog sits.", "A cat sits on a dog.", "the dog runs", "a cat"]


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("history", [("<s>", "<s>", "<s>"), ("a",), ("a", "dog"), ("zebra", "dog"), ("dog", "a"), ()])
def test_probabilities_sum_to_one(order, history):
    model = NgramModel.fit(CAPTIONS, order)
    assert sum(model.probability(word, history) for word in model.vocabulary) == pytest.approx(1)
    assert all(model.probability(word, history) > 0 for word in (*model.vocabulary, "zebra"))


def test_the_bigram_formula_written_out():
    """max(c(hw) - D, 0)/c(h) + D N(h.)/c(h) p(w), p(w) by the number of histories w was seen after (Kneser-Ney)."""
    model = NgramModel.fit(CAPTIONS, 2)
    sentences = [["<s>", *words(text), END] for text in CAPTIONS]
    bigrams = [(s[k], s[k + 1]) for s in sentences for k in range(len(s) - 1)]
    count = {b: bigrams.count(b) for b in bigrams}
    n1, n2 = (sum(c == n for c in count.values()) for n in (1, 2))
    discount = n1 / (n1 + 2 * n2)
    before = {w: sum(b[1] == w for b in count) for _, w in bigrams}
    m1, m2 = (sum(c == n for c in before.values()) for n in (1, 2))
    lower_discount = m1 / (m1 + 2 * m2)
    for history, word in [("a", "dog"), ("a", "sits"), ("dog", "."), ("the", "cat"), ("a", "zebra")]:
        total = sum(before.values())
        lower = max(before.get(word, 0) - lower_discount, 0) / total
        lower += lower_discount * len(before) / total / len(model.vocabulary)
        after = sum(c for b, c in count.items() if b[0] == history)
        kinds = sum(b[0] == history for b in count)
        expected = (max(count.get((history, word), 0) - discount, 0) + discount * kinds * lower) / after
        assert model.probability(word, (history,)) == pytest.approx(expected)


def test_a_caption_is_likelier_than_its_words_in_another_order():
    model = NgramModel.fit(CAPTIONS * 3)
    tokens = list(words(CAPTIONS[2]))
    for seed in range(20):
        shuffled = tokens.copy()
        random.Random(seed).shuffle(shuffled)
        if shuffled != tokens:
            likelier, other = (sum(model.log_probabilities(t)) for t in (CAPTIONS[2], " ".join(shuffled)))
            assert likelier > other


def test_every_token_and_the_end_have_a_probability():
    model = NgramModel.fit(CAPTIONS)
    found = model.log_probabilities("a dog")
    assert len(found) == 3
    steps = [("a", ("<s>", "<s>")), ("dog", ("<s>", "a")), (END, ("a", "dog"))]
    product = math.prod(model.probability(word, history) for word, history in steps)
    assert math.exp(sum(found)) == pytest.approx(product)


@settings(max_examples=50)
@given(st.lists(st.text(max_size=20), max_size=4), st.text(max_size=30))
def test_any_text_has_a_probability(captions, text):
    model = NgramModel.fit(captions)
    assert math.isfinite(sum(model.log_probabilities(text)))
    assert {UNKNOWN, END} <= model.vocabulary
