"""What goes into captions of images that nobody can judge: it contradicts, is no kin of what is there, and agrees."""

import random

import pytest

from tests.unit.adversaries.vsec.made import parsed
from vse.adversaries.attacks import ATTACKS
from vse.adversaries.pools import AttributeEntry, NounEntry, Pool, RelationEntry, WordPools
from vse.adversaries.univse.careful import CarefulEditor, CarefulPool
from vse.adversaries.univse.editor import Barred, apply_edits
from vse.adversaries.univse.generate import generate

NOBODY = Barred(frozenset(), frozenset(), frozenset())
COLOURS = "red green white purple pink"
OTHERS = "young elderly large small wooden beautiful lone"


def noun(word, determiner="a", countable=True):
    plural = f"{word}s" if countable else None
    return NounEntry(word=word, count=9, singular=word, plural=plural, determiner=determiner, countable=countable)


POOL = Pool(
    nouns=(noun("kite"), noun("sofa"), noun("bicyclist"), noun("wall"), noun("idea"), noun("rice", "", False)),
    attributes=tuple(AttributeEntry(word=w, count=9, form=w) for w in (COLOURS + " " + OTHERS).split()),
    relations=(
        RelationEntry(word="carry", count=9, forms={"VBZ": "carries", "adnominal": "carrying"}),
        RelationEntry(word="enjoy", count=9, forms={"VBZ": "enjoys", "adnominal": "enjoying"}),
        RelationEntry(word="fall", count=9, forms={"adnominal": "fallen"}),
    ),
)


def made(text, attack, times=300):
    """Every text that an attack makes of a caption, with care."""
    caption = parsed(text)
    editor = CarefulEditor(text, caption.parse, caption.components, CarefulPool(POOL), NOBODY, random.Random(0))
    changes = [ATTACKS[attack].draw(editor) for _ in range(times)]
    return {apply_edits(text, change.edits) for change in changes if change is not None}


def test_words_that_show_nothing_stay_out():
    pool = CarefulPool(POOL).pool
    assert {entry.word for entry in pool.nouns} == {"kite", "sofa", "bicyclist", "rice"}
    assert not {"beautiful", "lone"} & {entry.word for entry in pool.attributes}
    assert [(entry.word, dict(entry.forms)) for entry in pool.relations] == [
        ("carry", {"VBZ": "carries", "adnominal": "carrying"})
    ]


def test_attributes_contradict_those_they_replace():
    assert made("A green dog", "attribute") == {f"A {c} dog" for c in ("red", "white", "purple", "pink")}
    assert made("A large dog", "attribute") == {"A small dog"}
    assert made("A pink shirt on a table", "attribute") == {"A green shirt on a table", "A white shirt on a table"}


def test_attributes_put_in_suit_no_such_thing():
    assert made("A dog sleeps", "attribute") == {f"A {w} dog sleeps" for w in ("green", "purple", "pink", "wooden")}
    assert made("Water splashes", "attribute") <= {"Purple water splashes", "Pink water splashes"}


def test_numbers_agree_with_what_is_appended():
    assert "A dog sits on a table and a kite" in made("A dog sits on a table", "object")
    assert not any(t.startswith("A dog and") for t in made("A dog sits on a table", "object"))
    assert any(t.startswith("Two dogs and") for t in made("Two dogs sit on a table", "object"))


@pytest.mark.parametrize("text", ["A dog eats some food", "A dog eats more food", "A dog wears formal wear"])
def test_no_article_is_missing(text):
    for changed in made(text, "object"):
        assert not any(
            f"{word} {entry}" in changed for word in ("some", "more", "formal") for entry in ("kite", "sofa")
        )


def test_kin_of_what_any_caption_names_stays_out():
    pools = WordPools(training=POOL, attack_only=POOL)
    captions = [parsed("A man holds a cup", id="a"), parsed("Furniture in a room", id="b")]
    adversaries = list(generate(captions, pools, seed=0, split="test", attacks=("object",), per_caption=20))
    words = {word for adversary in adversaries for word in adversary.words_in}
    assert words
    assert words.isdisjoint({"bicyclist", "sofa"})
