"""Content words and their candidates: counted by hand, and chance by enumeration."""

from functools import partial
from itertools import permutations

import numpy as np
import pytest

from vse.data.sources.scenes import Scenes
from vse.evaluation.dependencies import ATTRIBUTE, RELATION, content_words, credits, earned, relation_phrase
from vse.text.components import extract
from vse.text.parser import Parser, shared_parser


def asked(text, excluded=(), judge=None):
    (parse,) = shared_parser(Parser.Config()).parse_all([text])
    return list(content_words(parse, extract(parse), excluded, judge))


def test_all_dependencies_among_the_nouns_are_candidates():
    words = asked("A girl in a red sweater eats a burger")
    assert [(each.kind, each.word) for each in words] == [(ATTRIBUTE, "red"), (RELATION, "in"), (RELATION, "eat")]
    red, _, eat = words
    assert set(red.candidates) == {("red", "girl"), ("red", "sweater"), ("red", "burger")}
    assert red.right == {("red", "sweater")}
    assert red.by_chance == pytest.approx(1 / 3)
    assert set(eat.candidates) == {(s, "eat", o) for s, o in permutations(("girl", "sweater", "burger"), 2)}
    assert eat.right == {("girl", "eat", "burger")}
    credit = dict(zip(eat.candidates, eat.credit, strict=True))
    assert credit["sweater", "eat", "burger"] == credit["girl", "eat", "sweater"] == 0.5
    assert credit["burger", "eat", "girl"] == credit["sweater", "eat", "girl"] == 0.0


@pytest.mark.parametrize("nouns", [2, 3, 5])
def test_chance_is_one_in_the_number_of_nouns(nouns):
    words = [f"noun{k}" for k in range(nouns)]
    pairs = [(s, "on", o) for s, o in permutations(words, 2)]
    assert credits(pairs, {pairs[-1]}).mean() == pytest.approx(1 / nouns)
    assert credits([("red", each) for each in words], {("red", words[0])}).mean() == pytest.approx(1 / nouns)


def test_of_several_right_answers_the_best_counts():
    pairs = [(s, "on", o) for s, o in permutations("abc", 2)]
    credit = dict(zip(pairs, credits(pairs, {("a", "on", "c"), ("b", "on", "c")}), strict=True))
    assert [credit[s, "on", o] for s, o in ("ac", "bc", "ab", "cb", "ba", "ca")] == [1, 1, 0.5, 0, 0.5, 0]


def test_excluded_words_are_no_relations():
    assert [each.word for each in asked("A bowl of soup on a table", ("of",)) if each.kind == RELATION] == ["on"]


def test_ties_share_the_credit():
    credit = np.array([1.0, 0.5, 0.0, 0.0])
    assert earned(np.array([0.1, 0.9, 0.3, 0.2]), credit) == 0.5
    assert earned(np.array([0.9, 0.9 + 1e-8, 0.9, 0.2]), credit) == pytest.approx(0.5)
    assert earned(np.zeros(4), credit) == pytest.approx(credit.mean())


@pytest.mark.seconds
def test_scenes_know_what_is_right():
    """All words are judged. What the scene says differs from the parse by other true answers and by the parser's slips
    (1 in 500 words)."""
    records = Scenes(Scenes.Config(num_train=0, num_val=0, num_test=60, num_shifted=0)).read()
    true = Scenes.truth(records)
    parses = shared_parser(Parser.Config()).parse_all([caption.text for caption in records.captions])
    number, more, slips = 0, 0, 0
    for caption, parse in zip(records.captions, parses, strict=True):
        components = extract(parse)
        judged = list(content_words(parse, components, (), partial(true, caption.image)))
        parsed = list(content_words(parse, components))
        assert [(each.kind, each.word) for each in judged] == [(each.kind, each.word) for each in parsed], caption.text
        for one, other in zip(judged, parsed, strict=True):
            assert one.candidates == other.candidates
            number, more, slips = number + 1, more + (one.right > other.right), slips + (not one.right >= other.right)
    assert more > 0.05 * number
    assert slips < 0.01 * number


def test_words_of_which_nothing_is_true_or_can_be_read_are_left_out():
    assert asked("A red ball on a box", judge=lambda text: None) == []
    left = asked("A red ball on a box", judge=lambda text: text == "a ball on a box")
    assert [each.right for each in left] == [{("ball", "on", "box")}]


def test_a_relation_is_said_without_the_words_of_its_object():
    (parse,) = shared_parser(Parser.Config()).parse_all(["Two cats are sitting to the left of a big red box"])
    (relation,) = extract(parse).relations
    assert relation_phrase(parse, relation) == "sitting to the left of"
