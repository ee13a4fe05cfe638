"""What each paradigm makes of sentences, and what must never come out."""

import dataclasses

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.adversaries.vsec.made import NOUNS, contrast_words, generator, parsed, slots, text_of
from vse.adversaries.attacks import contrast_classes
from vse.adversaries.univse.editor import apply_edits
from vse.adversaries.vsec.candidates import PARADIGMS, PUBLISHED, Rules
from vse.adversaries.vsec.grammar import agree, agreeing_verbs, has_loose_clause
from vse.adversaries.vsec.lists import LISTS
from vse.adversaries.vsec.slots import change_of, read_as
from vse.adversaries.vsec.words import KINDS, PREPOSITIONS, published_alternatives, sensible_alternatives
from vse.errors import InputError
from vse.text.syntax import Tree
from vse.text.tokens import tokenize
from vse.text.tokens import words as token_words

PAPER = dataclasses.replace(PUBLISHED, minimum=5)


def texts(caption, *others, paradigm=None, rules=None, kind="all"):
    """Every adversary of a caption as text."""
    phrases = generator(kind, rules).phrases
    return {
        text_of(slot, k, phrases, caption, tokenize(caption))
        for slot in slots(caption, *others, rules=rules, kind=kind)
        if paradigm in (None, slot.paradigm)
        for k in slot.choices()
    }


@pytest.mark.seconds
def test_nouns_agree_with_what_is_around_them():
    found = texts("A dog sits on a bench.", paradigm="noun")
    assert "A cat sits on a bench." in found
    assert "An elephant sits on a bench." in found
    assert "A dog sits on an umbrella." in found
    assert not any("a elephant" in text.lower() or "an cat" in text.lower() for text in found)
    assert "Two cats on a bench" in texts("Two dogs on a bench", paradigm="noun")
    assert "Two cat on a bench" not in texts("Two dogs on a bench", paradigm="noun")
    assert "The big elephant" in texts("The big dog", paradigm="noun")


@pytest.mark.seconds
def test_nouns_are_of_different_meaning_and_not_in_the_image():
    found = texts("A dog sits on a bench.", "A sofa with a kite.", "Two men with umbrellas.", paradigm="noun")
    for word in ("sofa", "kite", "umbrella", "man", "bench", "men"):
        assert not any(f" {word} " in f" {text.lower()[:-1]} ".replace(" on a bench ", " ") for text in found), word
    assert texts("An animal sits here.", paradigm="noun").isdisjoint({"A dog sits here.", "A cat sits here."})


@pytest.mark.parametrize(
    ("caption", "expected", "never"),
    [
        ("A dog is on a bench.", {"Two dogs are on a bench.", "A dog is on two benches."}, {"A dogs is on a bench."}),
        ("A man sits on the bench.", {"Three men sit on the bench."}, {"Three mans sit on the bench."}),
        ("There is a dog on a bus", {"There are two dogs on a bus"}, {"There is two dogs on a bus"}),
        (
            "A dog that is big sits on a bus",
            {"Two dogs that are big sit on a bus"},
            {"Two dogs that is big sit on a bus"},
        ),
        ("Two dogs are on a sofa", {"Three dogs are on a sofa", "One dog is on a sofa"}, {"A dog is on a sofa"}),
        ("One dog sits on a sofa.", {"Two dogs sit on a sofa."}, {"A dog sits on a sofa."}),
        ("Two men carry a kite.", {"One man carries a kite."}, {"One man carrys a kite."}),
    ],
)
def test_numerals_inflect_nouns_and_verbs(caption, expected, never):
    found = texts(caption, paradigm="numeral")
    assert expected <= found
    assert found.isdisjoint(never)


def test_numerals_that_could_be_true_are_not_made():
    assert not any("three" in text for text in texts("Two dogs.", "Three dogs and a cat.", paradigm="numeral"))
    assert not texts("A dog runs.", "Several dogs run.", paradigm="numeral")
    assert not texts("A man runs.", "A group of people.", paradigm="numeral")
    assert not texts("A couple of dogs.", paradigm="numeral")


def test_numerals_leave_sentences_they_cannot_mend():
    for caption in ("A dog with its tail up.", "The animal is a dog.", "A dog and cat.", "A dog's bowl"):
        assert not any(text.startswith(("Two dog", "Three dog")) for text in texts(caption, paradigm="numeral")), (
            caption
        )


def test_shuffles():
    assert texts("A man holds a dog.", paradigm="shuffle") == {"A dog holds a man."}
    assert "The truck is on a dog." in texts("A dog is on the truck.", paradigm="shuffle")
    for caption in (
        "A man and a dog.",
        "A man with a dog",
        "A man next to a dog",
        "A dog near the bus",
        "A man, a dog",
        "The animal is a dog",
    ):
        assert not texts(caption, paradigm="shuffle"), caption
    stacked = texts("A person on a bus on a truck", paradigm="shuffle")
    assert stacked
    assert "A person on a truck on a bus" not in stacked
    assert not texts("A man holds his dog.", paradigm="shuffle")
    assert not texts("A dog on a dog.", paradigm="shuffle")
    assert not texts("A man holds a dog.", "A dog holds a man.", paradigm="shuffle")


def test_prepositions():
    found = texts("A dog sits on a table.", paradigm="preposition")
    assert {"A dog sits under a table."} <= found
    assert found.isdisjoint({"A dog sits above a table.", "A dog sits over a table.", "A dog sits in a table."})
    assert "A dog behind a bus." in texts("A dog in front of a bus.", paradigm="preposition")
    assert "A dog under a bus." in texts("A dog next to a bus.", paradigm="preposition")
    assert texts("A man with a dog.", paradigm="preposition") == {"A man without a dog."}
    under = "A dog sits under a table."
    assert under not in texts("A dog sits on a table.", "A cat lies under the table.", paradigm="preposition")


@pytest.mark.parametrize(
    ("caption", "made"),
    [
        ("A man sits on a sofa.", {"under", "below"}),  # not "behind", which is the camera's business
        ("A man sits in a bus.", {"under"}),
        ("A dog swims in the water.", set()),
        ("A dog runs in the grass.", {"under"}),
        ("A man in a harness sits here.", set()),
        ("A man hangs on a table.", set()),
        ("A dog stands behind a truck.", {"on", "in", "inside", "under"}),  # a truck has a front of its own
        ("A man sits under a table.", {"on", "above", "over"}),
    ],
)
def test_prepositions_that_are_false_to_the_eye(caption, made):
    found = texts(caption, paradigm="preposition")
    listed = set(generator("all").words.prepositions)
    before = next(word for word in ("on", "in", "behind", "under") if f" {word} " in caption)
    assert found == {caption.replace(f" {before} ", f" {word} ", 1) for word in made & listed}


def test_phrases_that_say_the_same_either_way_round():
    assert not texts("A dog on a leash", paradigm="shuffle")
    assert "A boy plays in the beach on the sand" not in texts("A boy plays in the sand on the beach")
    assert "A man on the snow in skis" not in texts("A man on skis in the snow")
    assert "A dog sits near a bus on a table" not in texts("A dog sits near a table on a bus")


def test_number_is_left_where_the_parse_may_have_lost_a_verb():
    for caption in ("A man holding a truck that says stop", "A man in a cap gawks at a dog"):
        assert not any(text.startswith(("Two men", "Three men")) for text in texts(caption, paradigm="numeral"))
    assert "A man makes pizza in a bus" not in texts("A man makes bread in a bus", paradigm="noun")
    assert not any(text == "A dog in kite" for text in texts("A dog in hand", paradigm="noun"))


def test_number_agrees_with_a_verb_after_a_phrase_with_a():
    assert "Two men in a hat point at a dog" in texts("A man in a hat points at a dog", paradigm="numeral")


def test_as_published():
    found = texts("A dog sits on a table.", rules=PAPER, paradigm="numeral")
    assert {"Two dogs sits on a table.", "A dog sits on two tables."} <= found
    plural = texts("Two dogs sit.", rules=PAPER, paradigm="numeral")
    assert {"A dog sit.", "An dog sit.", "One dog sit.", "Three dogs sit."} <= plural
    assert texts("A man near a dog", rules=PAPER, paradigm="shuffle") == {"A dog near a man"}
    assert not texts("A man with a dog and a cat", rules=PAPER, paradigm="shuffle")
    assert "A dog on a box" in texts("A dog in a box", rules=PAPER, paradigm="preposition")
    nouns = texts("Two dogs on a table", rules=PAPER, paradigm="noun")
    assert "Two cat on a table" in nouns  # no number agreement


def test_the_published_table_leaks():
    assert len(LISTS.preposition_sets) == 23
    assert {"beyond", "over"}.isdisjoint(published_alternatives("on", False))
    assert "beyond" in published_alternatives("on", True)
    assert "within" in published_alternatives("in", True) - published_alternatives("in", False)
    for word in ("on", "in", "to"):  # replaced by a word that it shares a set with
        assert any(word in group and group & published_alternatives(word, True) for group in LISTS.preposition_sets)
    for word in PREPOSITIONS:
        for other in published_alternatives(word, False):
            assert not any({word, other} <= group for group in LISTS.preposition_sets)
    for word in ("on", "in", "near", "under", "next to", "in front of"):
        assert sensible_alternatives(word)
        assert word not in sensible_alternatives(word)


def test_nouns_are_divided_and_what_is_few_is_not():
    rules = Rules(minimum=5)
    words = {kind: contrast_words(rules).of(kind) for kind in KINDS}
    shared, disjoint, every = (set(words[kind].nouns) for kind in KINDS)
    assert not shared & disjoint
    assert shared | disjoint == every
    for kind in KINDS:  # a count or a preposition that training never puts in would say that a caption is true
        assert set(words[kind].numerals) == {"one", "two", "three", "four", "five", "seven", "nine"}
        assert words[kind].prepositions == words["all"].prepositions
    assert {entry.word for entry in words["all"].nouns} <= set(NOUNS) | {"man", "table", "water"}
    with pytest.raises(InputError, match="words=both"):
        contrast_words(rules).of("both")
    report = contrast_words(rules).report()
    assert report["nouns_all"] == len(words["all"].nouns)


def test_a_clause_that_the_parse_hangs_elsewhere_is_not_left_behind():
    """ "five trucks that is standing": the parser took the clause for nobody's or another's."""
    made = parsed("A truck that is big is near a bench.")
    tree = Tree(made.parse)
    owned = [agreeing_verbs(tree, k) for k, token in enumerate(made.parse) if token.text == "truck"]
    assert owned == [[3, 5]]
    assert not has_loose_clause(tree, 1)
    lost = tuple(dataclasses.replace(t, dep="dep") if t.dep == "acl:relcl" else t for t in made.parse)
    assert has_loose_clause(Tree(lost), 1)
    assert agree(Tree(lost), 1, plural=True) is None
    assert not has_loose_clause(Tree(lost), 7)  # the bench comes after it


def test_too_few_words_is_one_line():
    with pytest.raises(InputError, match="no noun of the training captions is frequent enough"):
        contrast_words(Rules(minimum=10_000)).of("all")


COMMON = "a an the two one Three dog dogs man men is are sits on in under with and of that which table bus 's - , ."
ODD = ("  ", "\n", "ÉCOLE", "犬", "3", "it's", "dog's", "x-ray", "İ", "ß", "\u2019s")
ANYTHING = st.one_of(
    st.text(max_size=60), st.lists(st.sampled_from([*COMMON.split(), *ODD]), max_size=14).map(" ".join)
)


@pytest.mark.seconds
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(ANYTHING, min_size=1, max_size=3), st.sampled_from([None, PAPER]))
def test_any_caption_is_changed_truly_or_not_at_all(captions, rules):
    made = generator("all", rules)
    group = [parsed.__wrapped__(text, id=str(k)) for k, text in enumerate(captions)]
    found = made.of_image(group)
    assert found == made.of_image(group)
    assert len(found) == len(captions)
    for caption, slots_found in zip(group, found, strict=True):
        lower = token_words(caption.text)
        for slot in slots_found:
            assert slot.paradigm in PARADIGMS
            assert len(slot) > 0
            for k in list(slot.choices())[:4]:
                change = change_of(slot, k, made.phrases, caption.text, caption.parse)
                assert change.edits
                for edit in change.edits:
                    assert 0 <= edit.start < edit.end <= len(caption.text)
                    assert edit.replacement
                text = apply_edits(caption.text, change.edits)
                assert text != caption.text
                assert token_words(text) == read_as(slot, k, made.phrases, lower) != lower
                assert slot.paradigm in change.reason
                assert " -> " in change.reason


def test_classes_cover_the_paradigms():
    assert sorted(sum(contrast_classes().values(), ())) == sorted(PARADIGMS)


@pytest.mark.parametrize("rules", [PAPER, Rules(minimum=5, held_out=False)], ids=["published", "ours"])
def test_nothing_is_held_out_where_papers_hold_nothing_out(rules):
    words = contrast_words(rules)
    assert words.of("shared").nouns == words.of("all").nouns
    assert {entry.word for entry in words.of("all").nouns} >= {
        entry.word for entry in contrast_words(dataclasses.replace(rules, held_out=True)).of("all").nouns
    }
    assert "nouns_disjoint" not in words.report()
    with pytest.raises(InputError, match=r"text\.contrast\.held_out=false leaves no nouns"):
        words.of("disjoint")
