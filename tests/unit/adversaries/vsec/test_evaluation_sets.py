"""Evaluation sets: twenty of each class, none true, none twice, kept as edits."""

from collections import Counter

import pytest

from tests.unit.adversaries.vsec.made import TEXTS, generator, parsed
from vse.adversaries.univse.generate import from_json_lines, to_json_lines
from vse.adversaries.vsec.evaluation_sets import (
    PLURAL,
    eligible_captions,
    eligible_images,
    evaluation_set,
    report,
    set_paradigms,
)
from vse.text.tokens import words as token_words

IMAGES = [
    [parsed("A dog is on a bench near a truck.", id="a", image="1"), parsed("A kite and a bowl.", id="b", image="1")],
    [parsed("Two dogs sit on the sofa.", id="c", image="2")],
    [parsed("Nothing here", id="d", image="3")],
]
CAPTIONS = [caption for group in IMAGES for caption in group]
TEXT = {caption.id: caption.text for caption in CAPTIONS}


@pytest.fixture(scope="module")
def made():
    return tuple(evaluation_set(IMAGES, generator("all"), seed=1, split="test"))


@pytest.mark.seconds
def test_each_class_has_new_texts_up_to_twenty(made):
    counts = Counter((a.caption_id, a.attack) for a in made)
    assert counts["a", "relation"] > counts["a", "preposition"]
    assert max(counts.values()) <= 20
    assert {a.attack for a in made} == set(set_paradigms())
    for group in IMAGES:
        said = {token_words(caption.text) for caption in group}
        for caption in group:
            for name in set_paradigms():
                texts = [
                    token_words(a.text(caption.text)) for a in made if (a.caption_id, a.attack) == (caption.id, name)
                ]
                assert len(set(texts)) == len(texts)
                assert said.isdisjoint(texts)
    assert not any(a.caption_id == "d" for a in made)


@pytest.mark.seconds
def test_no_change_takes_another_back(made):
    """ "A man behind a sign": shuffled and with the other preposition it would say the same."""
    image = [[parsed("A dog is on a bench near a truck behind a bowl.", id="a", image="1")]]
    relations = [a for a in evaluation_set(image, generator("all"), seed=1, split="test") if a.attack == "relation"]
    reasons = [a.reason for a in relations]
    assert any(reason.count("preposition: ") == 2 for reason in reasons)
    assert not any("shuffle: " in reason and "preposition: " in reason for reason in reasons)


def test_plurals_stay_plurals(made):
    plural = [a.text(TEXT[a.caption_id]) for a in made if a.attack == PLURAL]
    assert "Three dogs sit on the sofa." in plural
    assert not any(text.startswith(("One", "A ")) for text in plural)
    assert {a.caption_id for a in made if a.attack == PLURAL} == {"c"}


def test_draws_depend_on_seed_split_and_caption_only(made):
    again = tuple(evaluation_set(IMAGES[:1], generator("all"), seed=1, split="test"))
    assert again == tuple(a for a in made if a.caption_id in ("a", "b"))
    for seed, split in ((2, "test"), (1, "val")):
        assert tuple(evaluation_set(IMAGES, generator("all"), seed=seed, split=split)) != made


def test_what_is_true_is_left_out():
    def is_true(image, text):
        return "Three" in text or None

    found = tuple(evaluation_set(IMAGES, generator("all"), seed=1, split="test", is_true=is_true))
    texts = [a.text(TEXT[a.caption_id]) for a in found]
    assert texts
    assert not any("Three" in text for text in texts)


def test_unknown_words_do_not_come_in():
    known = {"two", "three", "cat", "sofa", "under"}
    found = tuple(evaluation_set(IMAGES, generator("all"), seed=1, split="test", known=known))
    assert found
    for adversary in found:
        assert set(adversary.words_in) <= known | set(token_words(TEXT[adversary.caption_id]))


def test_files_hold_edits(made):
    data = to_json_lines(made)
    assert from_json_lines(data) == made
    assert b"Three dogs sit" not in data


def test_eligible_and_report(made):
    assert eligible_captions(made, per_class=1) >= {"a", "c"}
    assert eligible_captions(made, per_class=21) == set()
    pairs = [(caption.id, caption.image) for caption in CAPTIONS]
    assert eligible_images(pairs, {"a", "c", "d"}) == {"2", "3"}
    found = report(made, CAPTIONS)
    assert found["captions"] == 4
    assert found["plural_images"] == 1
    assert found["counts_of_plurals"] == {"two": 1.0}
    assert found["attacks"]["noun"]["captions_attacked"] == 3
    assert sum(found["counts_of_plurals"].values()) == pytest.approx(1)


@pytest.mark.seconds
def test_disjoint_words_never_meet_shared_ones():
    captions = [[parsed(text, id=str(k), image=str(k))] for k, text in enumerate(TEXTS[:40])]
    words = {
        kind: {
            w
            for a in evaluation_set(captions, generator(kind), seed=1, split="test")
            if a.attack == "noun"
            for w in a.words_in
        }
        for kind in ("shared", "disjoint")
    }
    assert words["shared"]
    assert words["disjoint"]
    assert not (words["shared"] & words["disjoint"]) - {"a", "an"}
