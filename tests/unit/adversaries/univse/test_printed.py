"""Attacks to the letter of supplement B.2: its own examples, nothing repaired, and five of every caption."""

import dataclasses
import random
from collections import Counter

from tests.unit.adversaries.univse.test_attacks import NOBODY, POOL, POOLS, only
from tests.unit.text.hand_parses import ALL, apples, caption, dog, eats, sleeping
from vse.adversaries.attacks import ATTACKS
from vse.adversaries.pools import AttributeEntry, NounEntry, RelationEntry, WordPools
from vse.adversaries.registry import of_paper
from vse.adversaries.univse.editor import apply_edits, barred_as_printed
from vse.adversaries.univse.generate import PER_CAPTION, PRINTED, generate
from vse.adversaries.univse.printed import PrintedEditor
from vse.text.tokens import words


def entry(word, plural=None, determiner="a", countable=True):
    return NounEntry(word=word, count=9, singular=word, plural=plural, determiner=determiner, countable=countable)


def relation(word, **forms):
    return RelationEntry(word=word, count=9, forms=forms)


def drawn(parsed, attack, pool, times=400):
    """Every text that an attack makes of a caption as printed."""
    editor = PrintedEditor(parsed.text, parsed.parse, parsed.components, pool, NOBODY, random.Random(0))
    changes = [ATTACKS[attack].draw(editor) for _ in range(times)]
    made = [change for change in changes if change is not None]
    assert len(made) == times
    return {apply_edits(parsed.text, change.edits) for change in made}


def test_the_examples_of_the_supplement():
    table = only(nouns=(entry("table"),))
    assert drawn(eats(), "object", table) == {
        "A table eats meat",
        "A dog eats table",
        "A dog and table eats meat",
        "A dog eats meat and table",
    }
    play = only(nouns=(entry("table"),), relations=(relation("play", adnominal="playing with", VBZ="plays with"),))
    assert drawn(eats(), "relation", play) == {"A dog plays meat", "A table eats meat", "A dog eats table"}
    sky = only(nouns=(entry("sky", determiner="the"),), relations=(relation("in", adnominal="in"),))
    assert drawn(sleeping(), "relation", sky) == {"A dog in sky is sleeping", "Sky in a dog is sleeping"}


def test_articles_and_compounds_stay_as_they_are():
    old = only(attributes=(AttributeEntry(word="old", count=1, form="old"),))
    assert drawn(dog(), "attribute", old) == {
        "A old dog sitting on a wooden bench",
        "A brown dog sitting on a old bench",
    }
    assert "Apples under an airport moon" in drawn(apples(), "object", POOL)
    assert "Tables under an airport sign" in drawn(apples(), "object", POOL)
    assert "Rice under an airport sign" in drawn(apples(), "object", POOL)  # it has no plural, and goes in all the same


def test_only_a_word_of_a_phrase_goes_in():
    front = only(relations=(relation("front", adnominal="in front of"),), nouns=(entry("kite"),))
    assert "A dog front meat" in drawn(eats(), "relation", front)


def test_parts_are_replaced_as_often_as_printed():
    pool = only(nouns=(entry("table"),), relations=(relation("play", VBZ="plays"),))
    reasons = Counter()
    for seed in range(3000):
        editor = PrintedEditor(eats().text, eats().parse, eats().components, pool, NOBODY, random.Random(seed))
        change = ATTACKS["relation"].draw(editor)
        reasons[change.reason.split()[0] if change else ""] += 1
    assert all(900 < reasons[part] < 1100 for part in ("subject", "relation", "object")), reasons


def test_bars_are_those_of_the_supplement_alone():
    barred = barred_as_printed({"man", "donut"}, {"white", "bright"}, {"on"})
    assert barred.nouns == {"man", "donut", "doughnut"}  # not "woman", "person", "boy"
    assert barred.attributes == {"white", "snowy", "polar", "bright"}  # not "colorful"
    assert barred.relations == {"on"}  # not "atop"


def test_every_caption_gets_as_many_as_printed_or_none_can_be_made():
    nouns = tuple(entry(word, f"{word}s") for word in ("table", "kite", "lamp", "boat", "cat", "cake"))
    attributes = tuple(AttributeEntry(word=w, count=9, form=w) for w in ("red", "old", "sandy", "cute", "polar", "dry"))
    pool = dataclasses.replace(POOL, nouns=nouns, attributes=attributes)
    pools = WordPools(training=pool, attack_only=only())
    made = list(generate(ALL, pools, seed=1, split="test", words=PRINTED))
    counts = Counter((a.caption_id, a.attack) for a in made if a.attack in of_paper())  # others may fit few captions
    assert counts == {(each.id, attack): PER_CAPTION for each in ALL for attack in of_paper()}
    texts = {each.id: each.text for each in ALL}
    assert len({(a.caption_id, a.attack, words(a.text(texts[a.caption_id]))) for a in made}) == len(made)
    assert {a.words for a in made} == {PRINTED}
    empty = caption("none", "9", "Running", "Running/run/VBG/0/root")
    assert list(generate([empty], pools, seed=1, split="test", words=PRINTED)) == []


def test_truth_is_not_asked():
    def truth(image, text):
        raise AssertionError

    made = list(generate([eats()], POOLS, seed=1, split="test", words=PRINTED, is_true=truth))
    assert made == list(generate([eats()], POOLS, seed=1, split="test", words=PRINTED))
