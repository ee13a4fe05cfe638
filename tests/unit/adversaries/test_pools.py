"""Word pools: forms as training captions use them, cut-offs, and the split by hash."""

import pytest

from tests.unit.text.hand_parses import ALL, apples, caption, dog, eats, plays
from vse.adversaries.pools import (
    NounEntry,
    PoolConfig,
    build_pools,
    compound_start,
    hyphenated_start,
    noun_phrase_start,
    relation_span,
)
from vse.adversaries.word_lists import SHARED
from vse.config import override
from vse.errors import InputError
from vse.presets import preset
from vse.text.parsed_caption import ParsedCaption

WHOLE = PoolConfig(minimum=1, held_out=False)


def pairs(captions):
    return [(c.parse, c.components) for c in captions]


def test_entries_keep_the_forms_of_training_captions():
    pool = build_pools(pairs(ALL), WHOLE).training
    nouns = {entry.word: entry for entry in pool.nouns}
    assert (nouns["dog"].singular, nouns["dog"].determiner, nouns["dog"].countable, nouns["dog"].count) == (
        "dog",
        "a",
        True,
        3,
    )
    assert (nouns["meat"].singular, nouns["meat"].determiner, nouns["meat"].countable) == ("meat", "", False)
    assert nouns["sky"].determiner == "the"
    assert (nouns["apple"].singular, nouns["apple"].plural) == (None, "apples")
    assert pool.nouns[0].word == "dog"
    relations = {entry.word: dict(entry.forms) for entry in pool.relations}
    assert relations == {
        "sit": {"adnominal": "sitting on"},
        "eat": {"VBZ": "eats"},
        "under": {"adnominal": "under"},
        "watch": {"VBZ": "watches"},
        "near": {"adnominal": "near"},
    }
    assert pool.words()["attributes"] == ("brown", "orange", "wooden")


def test_rare_and_abstract_words_stay_out():
    captions = pairs([dog(), dog(), eats()])
    assert build_pools(captions, PoolConfig(minimum=2, held_out=False)).training.words()["nouns"] == ("dog", "bench")
    assert build_pools(captions * 2, PoolConfig(held_out=False)).training.words()["nouns"] == ("dog",)
    assert build_pools(captions * 5, PoolConfig(frequent=0.5, held_out=False)).training.words()["relations"] == ("sit",)


def test_parts_of_hyphenated_words_stay_out():
    man = caption(
        "man",
        "9",
        "A gray-haired man in a t-shirt",
        "A/a/DT/4/det gray/gray/JJ/3/amod -/-/./3/punct haired/haired/JJ/4/amod man/man/NN/4/root in/in/IN/9/case "
        "a/a/DT/9/det t/t/NN/9/compound -/-/./9/punct shirt/shirt/NN/4/nmod",
        objects=(4, 9),
        attributes=((3, 4),),
    )
    pool = build_pools(pairs([man]), WHOLE).training
    assert pool.words() == {"nouns": ("man",), "attributes": (), "relations": ()}
    assert hyphenated_start(man.parse, 9) == 7
    assert hyphenated_start(man.parse, 4) == 4
    assert compound_start(man.parse, 9) == 7


def test_slips_of_the_parser_stay_out():
    slip = caption("slip", "9", "A eats", "A/a/DT/1/det eats/eat/NNS/1/root", objects=(1,))
    words = build_pools(pairs([slip, eats()]), WHOLE).training.words()
    assert "eat" in words["nouns"]
    words = build_pools(pairs([slip, eats(), eats(), eats()]), WHOLE).training.words()
    assert "eat" not in words["nouns"]


def test_forms_that_were_hardly_seen_stay_out():
    """Five times a lemma, once in the plural: that form may be unknown to a model."""
    one = caption("one", "9", "A cat", "A/a/DT/1/det cat/cat/NN/1/root", objects=(1,))
    several = caption("several", "9", "Cats", "Cats/cat/NNS/0/root", objects=(0,))

    def cat(times: int) -> NounEntry:
        pools = build_pools(pairs([*5 * [one], *times * [several]]), PoolConfig(minimum=5, held_out=False))
        return pools.training.nouns[0]

    assert (cat(4).singular, cat(4).plural) == ("cat", None)
    assert cat(5).plural == "cats"
    rare = build_pools(pairs([*3 * [one], *3 * [several]]), PoolConfig(minimum=5, held_out=False))
    assert rare.training.nouns == ()  # six times the lemma, but no form that was learned


def test_lists_of_attributes():
    assert len(SHARED.published_attributes) == 37
    assert "morden" in SHARED.published_attributes
    assert "blue" not in SHARED.published_attributes
    assert {"blue", "modern"} <= set(SHARED.corrected_attributes)
    captions = pairs(ALL)
    published = build_pools(captions, PoolConfig(minimum=1, attributes="published", held_out=False)).training
    assert published.words()["attributes"] == ("brown", "orange", "wooden")
    with pytest.raises(InputError, match=r"text\.pools\.attributes.*colours"):
        override(preset("univse_coco"), {"text.pools.attributes": "colours"})


def test_split_is_exact_disjoint_and_repeatable():
    pools = build_pools(pairs(ALL), PoolConfig(minimum=1))
    whole = build_pools(pairs(ALL), WHOLE).training.words()
    for kind, words in whole.items():
        training, attack = pools.training.words()[kind], pools.attack_only.words()[kind]
        assert not set(training) & set(attack)
        assert sorted(training + attack) == sorted(words)
        assert len(training) == -(-7 * len(words) // 10)
    again = build_pools(pairs(reversed(ALL)), PoolConfig(minimum=1))
    assert again == pools
    assert again.fingerprint == pools.fingerprint


def test_phrases():
    assert noun_phrase_start(dog().parse, 7) == 5
    assert noun_phrase_start(dog().parse, 2) == 0
    assert compound_start(apples().parse, 4) == 3
    assert noun_phrase_start(apples().parse, 4) == 2
    assert relation_span(dog().parse, dog().components.relations[0]) == (3, 5)
    assert relation_span(plays().parse, plays().components.relations[1]) == (6, 7)
    assert relation_span(plays().parse, plays().components.relations[0]) == (3, 4)


def test_spellings_of_a_word_are_one_word() -> None:
    def one(word: str) -> ParsedCaption:
        parse = f"A/a/DT/2/det {word}/{word}/JJ/2/amod donut/donut/NN/2/root"
        return caption(word, "9", f"A {word} donut", parse, objects=(2,), attributes=((1, 2),))

    other = caption("other", "9", "A doughnut", "A/a/DT/1/det doughnut/doughnut/NN/1/root", objects=(1,))
    whole = build_pools(pairs([one("gray"), one("grey"), one("grey"), *2 * [other]]), WHOLE).training
    assert [(entry.word, entry.form, entry.count) for entry in whole.attributes] == [("grey", "grey", 3)]
    assert [(e.word, e.singular, e.count, e.determiner) for e in whole.nouns] == [("donut", "donut", 5, "a")]
    for attributes in ("published", "corrected"):
        config = PoolConfig(minimum=3, attributes=attributes, held_out=False)
        listed = build_pools(pairs([one("gray"), one("grey"), one("colourful")] * 3), config).training
        assert set(listed.words()["attributes"]) == {"gray", "colourful"}
    halves = build_pools(
        pairs([one("gray"), one("grey"), one("red"), one("green"), one("blue")]), PoolConfig(minimum=1)
    )
    assert len(halves.training.attributes) == 3  # of four
    assert len(halves.attack_only.attributes) == 1
