"""Adversaries: what each attack does to a sentence, and what must never come out."""

import dataclasses
import itertools
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.text.hand_parses import ALL, apples, caption, dog, eats, sleeping
from vse.adversaries.attacks import ATTACKS, of_paper
from vse.adversaries.pools import AttributeEntry, NounEntry, Pool, PoolConfig, RelationEntry, WordPools, build_pools
from vse.adversaries.univse.editor import Barred, Edit, Editor, apply_edits, article, barred_attributes, barred_nouns
from vse.adversaries.univse.generate import from_json_lines, generate, manifest, to_json_lines, unsure
from vse.errors import InputError
from vse.text.components import Attribute, Components, Object, Relation
from vse.text.parse import ParsedToken
from vse.text.parsed_caption import ParsedCaption
from vse.text.tokens import tokenize, words

NOBODY = Barred(frozenset(), frozenset(), frozenset())


def noun(word, plural=None, determiner="a", countable=True):
    return NounEntry(word=word, count=9, singular=word, plural=plural, determiner=determiner, countable=countable)


POOL = Pool(
    nouns=(
        noun("table", "tables"),
        noun("umbrella", "umbrellas"),
        noun("rice", None, "", False),
        noun("moon", None, "the"),
    ),
    attributes=tuple(AttributeEntry(word=w, count=9, form=w) for w in ("red", "old", "white", "sandy")),
    relations=(
        RelationEntry(word="under", count=9, forms={"adnominal": "under"}),
        RelationEntry(word="hang", count=9, forms={"adnominal": "hanging from", "VBZ": "hangs from"}),
    ),
)
POOLS = WordPools(training=POOL, attack_only=dataclasses.replace(POOL, nouns=(noun("kite", "kites"),)))


def drawn(parsed, attack, pool=POOL, times=400):
    """Every text that an attack makes of a caption."""
    editor = Editor(parsed.text, parsed.parse, parsed.components, pool, NOBODY, random.Random(0))
    changes = [ATTACKS[attack].draw(editor) for _ in range(times)]
    return {apply_edits(parsed.text, change.edits) for change in changes if change is not None}


def only(**lists):
    """A pool with nothing but these entries."""
    return Pool(**({"nouns": (), "attributes": (), "relations": ()} | lists))


def test_object_attack_replaces_or_appends():
    texts = drawn(eats(), "object")
    assert {
        "A table eats meat",
        "An umbrella eats meat",
        "A dog eats a table",
        "A dog eats rice",
        "A dog eats the moon",
        "A dog and a table eats meat",
        "A dog eats meat and an umbrella",
        "A dog eats meat and rice",
    } <= texts
    assert "A rice eats meat" not in texts
    replaced = [t for t in texts if " and " not in t]
    assert 0 < len(replaced) < len(texts)


def test_object_attack_halves_are_equally_likely():
    editor = Editor(
        sleeping().text, sleeping().parse, sleeping().components, only(nouns=(noun("table"),)), NOBODY, random.Random(1)
    )
    changes = [ATTACKS["object"].draw(editor) for _ in range(2000)]
    appended = sum(change is not None and change.reason.startswith("append") for change in changes)
    assert 900 < appended < 1100


def test_parts_of_a_triple_are_equally_likely_however_few_relation_words_fit():
    fits, not_here = POOL.relations[0], RelationEntry(word="at", count=1, forms={})
    pool = dataclasses.replace(POOL, relations=(fits, *(not_here,) * 3))
    parts = Counter()
    for seed in range(3000):
        editor = Editor(dog().text, dog().parse, dog().components, pool, NOBODY, random.Random(seed))
        change = next(change for change in (ATTACKS["relation"].draw(editor) for _ in range(60)) if change is not None)
        parts[change.reason.split()[0]] += 1
    assert all(900 < parts[part] < 1100 for part in ("subject", "relation", "object")), parts


def test_another_part_is_changed_where_the_drawn_one_cannot_be():
    pool = dataclasses.replace(POOL, relations=())
    editors = (Editor(dog().text, dog().parse, dog().components, pool, NOBODY, random.Random(k)) for k in range(50))
    assert all(any(ATTACKS["relation"].draw(editor) is not None for _ in range(60)) for editor in editors)


def test_plurals_and_compounds():
    texts = drawn(apples(), "object")
    assert "Tables under an airport sign" in texts
    assert "Apples under a table" in texts  # the compound goes as a whole and the article follows
    assert "Apples under an umbrella" in texts
    assert not any(text.startswith(("Rice", "Moon")) for text in texts)


def test_attribute_attack_replaces_one_attribute():
    pool = only(attributes=(AttributeEntry(word="old", count=1, form="old"),))
    assert drawn(dog(), "attribute", pool) == {
        "An old dog sitting on a wooden bench",
        "A brown dog sitting on an old bench",
    }


def test_attribute_attack_inserts_one_where_there_is_none():
    pool = only(attributes=(AttributeEntry(word="red", count=1, form="red"),))
    assert drawn(apples(), "attribute", pool) == {"Red apples under an airport sign", "Apples under a red airport sign"}


def test_relation_attack_replaces_one_part():
    assert drawn(eats(), "relation", only(relations=POOL.relations)) == {"A dog hangs from meat"}
    texts = drawn(dog(), "relation")
    assert {"A brown dog under a wooden bench", "A brown table sitting on a wooden bench"} <= texts
    assert "A brown dog sitting on a wooden umbrella" in texts


def test_hyphenated_words_go_as_a_whole():
    text = "Knee-high water"
    parsed = caption(
        "w",
        "8",
        text,
        "Knee/knee/NN/2/compound -/-/./2/punct high/high/JJ/3/amod water/water/NN/3/root",
        objects=(3,),
        attributes=((2, 3),),
    )
    assert drawn(parsed, "attribute", only(attributes=POOL.attributes[:1])) == {"Red water"}


def test_fake_relations_where_there_is_none():
    pool = only(nouns=(noun("sky", None, "the"),), relations=POOL.relations[:1])
    assert drawn(sleeping(), "relation", pool) == {
        "A dog under the sky is sleeping",
        "The sky under a dog is sleeping",
    }


def test_similar_words_are_barred():
    assert {"white", "snowy", "polar"} <= barred_attributes(["snowy"])
    assert "red" in barred_attributes(["pink"])
    assert "person" in barred_nouns(["man"])
    assert "table" not in barred_nouns(["man"])


@pytest.mark.parametrize(
    ("word", "right"),
    [
        ("apple", "an"),
        ("table", "a"),
        ("hour", "an"),
        ("unicorn", "a"),
        ("umbrella", "an"),
        ("European", "a"),
        ("", "a"),
        ("unidentified", "an"),
        ("unimportant", "an"),
        ("uniform", "a"),
        ("using", "a"),
        ("x-ray machine", "an"),
        ("u-turn", "a"),
        ("t-shirt", "a"),
        ("Hour", "an"),
        ("hourglass", "an"),
        ("hotel", "a"),
        ("herbed", "an"),
        ("herbivore", "a"),
        ("one-eyed", "a"),
        ("once", "a"),
        ("eighth", "an"),
        ("\u00e9clair", "an"),
        ("8", "an"),
        ("80-year-old", "an"),
        ("11", "an"),
        ("18th", "an"),
        ("11,000", "an"),
        ("18000", "an"),
        ("1.8", "a"),
        ("118", "a"),
        ("110", "a"),
        ("1800", "a"),
        ("7", "a"),
        ("?", "a"),
    ],
)
def test_article(word, right):
    assert article(word) == right


def everything(captions=ALL, pools=POOLS, **options):
    given: dict[str, Any] = {"seed": 1, "split": "test", "is_true": unsure}
    return list(generate(captions, pools, **(given | options)))


def test_adversaries_are_new_distinct_and_repeatable():
    adversaries = everything(attacks=of_paper())  # another attack may find nothing to change
    texts = {c.id: c.text for c in ALL}
    seen = set()
    for adversary in adversaries:
        read = words(adversary.text(texts[adversary.caption_id]))
        assert read != words(texts[adversary.caption_id])
        assert (adversary.caption_id, adversary.attack, read) not in seen
        seen.add((adversary.caption_id, adversary.attack, read))
    assert {(a.caption_id, a.attack) for a in adversaries} == {(c.id, k) for c in ALL for k in of_paper()}
    assert sum(a.caption_id == "dog" and a.attack == "object" for a in adversaries) == 5
    assert everything(attacks=of_paper()) == adversaries
    assert everything(ALL[:1], attacks=of_paper()) == [a for a in adversaries if a.caption_id == "dog"]
    assert from_json_lines(to_json_lines(adversaries)) == tuple(adversaries)
    about = manifest(adversaries, len(ALL), seed=1, split="test", pools=POOLS)
    assert about["attacks"]["object/shared"]["captions_attacked"] == len(ALL)


def test_splits_and_seeds_give_other_adversaries():
    assert everything(split="val") != everything(split="test")
    assert everything(seed=2) != everything(seed=1)


def test_disjoint_attacks_use_only_their_own_words():
    assert {w for a in everything(words="disjoint", attacks=("object",)) for w in a.words_in} == {"kite"}


def test_words_of_other_captions_of_the_image_are_relevant():
    other = caption("other", "2", "A table", "A/a/DT/1/det table/table/NN/1/root", objects=(1,))
    swapped = {
        w for a in everything([eats(), other], attacks=("object",)) for w in a.words_in if a.caption_id == "eats"
    }
    assert swapped == {"umbrella", "rice", "moon"}


def test_a_caption_of_the_image_is_never_made():
    pool = only(nouns=(noun("cat"),), attributes=(AttributeEntry(word="red", count=1, form="red"),))
    pools = WordPools(training=pool, attack_only=pool)
    twin = ParsedCaption(
        id="twin", image="3", text="A RED dog is sleeping!", parse=(), components=Components((), (), ())
    )
    assert {a.text("A dog is sleeping") for a in everything([sleeping()], pools, attacks=("attribute",))} == {
        "A red dog is sleeping"
    }
    twin = dataclasses.replace(twin, text="A RED dog is sleeping")
    assert everything([sleeping(), twin], pools, attacks=("attribute",)) == []


def test_as_printed_nobody_says_what_is_true():
    def made(truth):
        return everything([eats()], is_true=truth, per_caption=20)

    assert made(lambda image, text: True) == [] != made(unsure)
    assert len(made(unsure)) > len(made(None))  # care drops much of what B.2 draws
    assert made(unsure) == made(lambda image, text: False)  # where nothing drawn is true, they are the same captions


def test_what_is_true_of_the_image_is_dropped():
    asked = []

    def truth(image, text):
        asked.append(image)
        return True if "table" in text else None

    adversaries = everything([eats()], is_true=truth)
    assert adversaries
    assert set(asked) == {"2"}
    assert not any("table" in a.words_in for a in adversaries)


def test_truth_lifts_the_bar_on_attributes_of_other_captions():
    other = caption("other", "1", "Red", "Red/red/JJ/0/root")
    known = everything([dog(), other], attacks=("attribute",), is_true=lambda image, text: False)
    unknown = everything([dog(), other], attacks=("attribute",), is_true=None)
    assert "red" in {w for a in known for w in a.words_in}
    assert "red" not in {w for a in unknown for w in a.words_in}


def test_edits_belong_to_their_caption():
    adversary = everything([eats()])[0]
    with pytest.raises(InputError, match="caption eats: the caption has changed"):
        adversary.text("A dog eats fish")
    with pytest.raises(AssertionError, match="overlap"):
        apply_edits("abc", (Edit(0, 2, "x"), Edit(1, 3, "y")))
    with pytest.raises(InputError, match="file, line 2"):
        from_json_lines(to_json_lines([adversary]) + b"{}\n", "file")


ROW = st.tuples(
    st.sampled_from(("NN", "NNS", "VBZ", "VBG", "IN", "DT", "JJ", ".")),
    st.sampled_from(("NOUN", "VERB", "ADP", "PUNCT")),
    st.integers(0, 50),
    st.sampled_from(("det", "amod", "compound", "nsubj", "obj", "case", "punct", "nmod:poss", "root")),
)
PLACES = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50)), max_size=4)


def any_caption(text, image, rows, places):
    """A caption with any parse and any components over its tokens."""
    tokens = tokenize(text)
    parse = tuple(
        ParsedToken(t.text, t.start, t.end, t.text.lower(), tag, pos, head % len(tokens), label)
        for t, (tag, pos, head, label) in zip(tokens, itertools.cycle(rows))
    )
    spots = [tuple(k % len(tokens) for k in place) for place in places] if tokens else []
    components = Components(
        objects=tuple(Object(parse[a].lemma, a) for a, _, _ in spots),
        attributes=tuple(Attribute(parse[a].lemma, parse[b].lemma, a, b) for a, b, _ in spots[:2]),
        relations=tuple(Relation(parse[a].lemma, parse[b].lemma, parse[c].lemma, a, (b,), c) for a, b, c in spots[2:]),
    )
    return ParsedCaption(id=text, image=image, text=text, parse=parse, components=components)


@pytest.mark.seconds
@settings(deadline=None, max_examples=150)
@given(
    st.dictionaries(st.text(max_size=40), st.sampled_from("ij"), min_size=1, max_size=3),
    st.lists(ROW, min_size=1, max_size=12),
    PLACES,
    st.integers(),
)
def test_any_text_and_any_parse_is_survived(texts, rows, places, seed):
    captions = [any_caption(text, image, rows, places) for text, image in texts.items()]
    own = build_pools([(c.parse, c.components) for c in captions], PoolConfig(minimum=1, held_out=False))
    for pools, judge in itertools.product((POOLS, own), (unsure, None)):
        adversaries = everything(captions, pools, seed=seed, is_true=judge)
        assert adversaries == everything(captions, pools, seed=seed, is_true=judge)
        for adversary in adversaries:
            made = words(adversary.text(adversary.caption_id))
            true = [text for text, image in texts.items() if image == texts[adversary.caption_id]]
            assert made not in {words(text) for text in true}
        assert from_json_lines(to_json_lines(adversaries)) == tuple(adversaries)
