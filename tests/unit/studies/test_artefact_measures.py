"""The artefact test: what is told, what the symmetric filter keeps, what stands in the table."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vse.studies.artefact_measures import Row, Sample, measure, symmetric, table
from vse.studies.ngram_model import NgramModel
from vse.studies.text_classifier import Interval

FILTERS = ("none", "language model", "both")
NOUNS = ("dog", "cat", "man", "kite", "bird")
PLACES = ("grass", "sofa", "street", "roof")
TRAIN = [f"a {n} is on the {p}" for n in NOUNS for p in PLACES]
MODEL = NgramModel.fit(TRAIN)
VOCABULARY = {"a", "is", "on", "the", *NOUNS, *PLACES}


def samples(paradigm, make, num_images=60):
    rng = np.random.default_rng(0)
    found = []
    for image in range(num_images):
        noun, place = rng.choice(NOUNS), rng.choice(PLACES)
        caption = f"a {noun} is on the {place}"
        found.append(Sample(image=f"i{image}", caption=caption, adversary=make(rng, noun, place), paradigm=paradigm))
    return found


def other_noun(rng, noun, place):
    return f"a {rng.choice([n for n in NOUNS if n != noun])} is on the {place}"


@pytest.mark.seconds
def test_exchanged_nouns_cannot_be_told_and_marks_can():
    plain = samples("noun", other_noun)
    marked = samples("marked", lambda rng, noun, place: other_noun(rng, noun, place) + " and zebra")
    rows = {(row.paradigm, row.filter): row for row in measure([*plain, *marked], MODEL, VOCABULARY)}
    assert list(rows) == [(paradigm, name) for paradigm in ("noun", "marked") for name in FILTERS]
    noun, told = rows["noun", "none"], rows["marked", "none"]
    assert noun.text is not None
    assert (
        noun.text.low <= 0.5
    )  # matched pairs in folds by image: a word rarer among real texts here is rarer not there
    assert noun.reaches_goal is True
    assert noun.length == Interval(0.5, 0.5, 0.5)
    assert (noun.unknown_captions, noun.unknown_adversaries) == (0, 0)
    for measured in (told.text, told.length, told.unknown, told.prefers_caption):
        assert measured is not None
        assert measured.value == 1
    assert told.reaches_goal is False
    assert told.unknown_adversaries == pytest.approx(2 / 8)  # "and" too: no training caption has it
    for name in FILTERS[1:]:  # every gap favours the caption: nothing can be kept in balance
        after = rows["marked", name]
        assert (after.pairs, after.coverage, after.text, after.reaches_goal) == (0, 0.0, None, None)


@pytest.mark.seconds
def test_after_the_filter_the_language_model_prefers_neither():
    worse = samples("mixed", lambda rng, n, p: other_noun(rng, n, p) if rng.random() < 0.5 else f"{n} a on is {p} the")
    before, after, both = measure(worse, MODEL, VOCABULARY)
    assert [row.numbers() for row in measure(worse, MODEL, VOCABULARY)] == [r.numbers() for r in (before, after, both)]
    assert before.prefers_caption is not None
    assert after.prefers_caption is not None
    assert before.prefers_caption.value > 0.55
    assert after.prefers_caption.value == 0.5
    assert 0 < after.coverage < 1
    assert after.captions_covered <= 1
    assert after.pairs == round(after.coverage * before.pairs)
    assert before.text is not None
    assert after.text is not None
    assert after.text.value < before.text.value
    assert 0 < both.pairs <= after.pairs


def test_too_few_images_are_said_not_measured():
    few = samples("noun", other_noun, num_images=9)
    row = measure(few, MODEL, VOCABULARY)[0]
    assert (row.pairs, row.images, row.text) == (9, 9, None)
    assert "too few" in table([row])[1]


GAPS = st.lists(st.integers(-6, 6).map(lambda k: k / 4), max_size=40)


@given(GAPS)
def test_signs_are_balanced_whatever_the_gaps(values):
    gap = np.array(values)
    keys = [str(k).encode() for k in range(len(gap))]
    kept = symmetric(gap[:, None], keys, bins=3)
    assert kept == sorted(set(kept))
    assert (gap[kept] > 0).sum() == (gap[kept] < 0).sum()
    assert (gap[kept] == 0).sum() == (gap == 0).sum()


@pytest.mark.seconds
@given(GAPS, st.randoms(use_true_random=False))
def test_which_pairs_stay_does_not_depend_on_their_order(values, random):
    gap = np.array(values)
    order = list(range(len(values)))
    random.shuffle(order)
    keys = [str(k).encode() for k in range(len(gap))]
    kept = symmetric(gap[:, None], keys, bins=4)
    again = symmetric(gap[order][:, None], [keys[k] for k in order], bins=4)
    assert {order[k] for k in again} == set(kept)


def test_large_and_small_gaps_are_balanced_each():
    gap = np.array([0.1, 0.1, -0.1, 5.0, 5.0, 5.0, -5.0])
    kept = symmetric(gap[:, None], [bytes([k]) for k in range(7)], bins=2)
    assert sorted(gap[kept].tolist()) == [-5.0, -0.1, 0.1, 5.0]


@given(st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3)), max_size=60))
def test_two_gaps_are_mirrored_together(values):
    gaps = np.array(values, dtype=float).reshape(len(values), 2)
    kept = symmetric(gaps, [str(k).encode() for k in range(len(gaps))], bins=2)
    signs = [tuple(row) for row in np.sign(gaps[kept]).astype(int).tolist()]
    for a, b in set(signs):
        assert signs.count((a, b)) == signs.count((-a, -b))
    assert (gaps[kept] == 0).all(1).sum() == (gaps == 0).all(1).sum()


def test_numbers_and_table():
    share = Interval(0.6, 0.55, 0.64)
    row = Row(
        paradigm="noun",
        filter="language model",
        pairs=10,
        images=5,
        coverage=0.5,
        captions_covered=0.75,
        unknown_captions=0.0,
        unknown_adversaries=0.1,
        text=share,
    )
    assert row.reaches_goal is True
    numbers = row.numbers()
    assert numbers["artefacts/noun/language_model/text_high"] == 0.64
    assert numbers["artefacts/noun/language_model/captions_covered"] == 0.75
    line = table([row])[1]
    assert "60.0 [55.0, 64.0]" in line
    assert line.endswith("reached")
