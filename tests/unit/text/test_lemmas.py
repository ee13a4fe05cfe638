import pytest

from vse.text.lemmas import LemmaTable

SEEN = [
    ("cats", "NOUN", "cat"), ("dogs", "NOUN", "dog"), ("ladies", "NOUN", "lady"), ("parties", "NOUN", "party"),
    ("boxes", "NOUN", "box"), ("foxes", "NOUN", "fox"), ("bus", "NOUN", "bus"), ("walking", "VERB", "walk"),
    ("talking", "VERB", "talk"), ("riding", "VERB", "ride"), ("Running", "VERB", "run"), ("tower", "NOUN", "tower"),
    ("walked", "VERB", "walk"), ("talked", "VERB", "talk"), ("moved", "VERB", "move"), ("loved", "VERB", "love"),
]  # fmt: skip


@pytest.fixture(scope="module")
def table():
    return LemmaTable.learn(SEEN)


def test_seen_forms_have_their_lemma_whatever_the_rules(table):
    assert table.accuracy(SEEN) == 1.0


@pytest.mark.parametrize(
    ("form", "pos", "lemma"),
    [
        ("skateboards", "NOUN", "skateboard"),
        ("berries", "NOUN", "berry"),
        ("balking", "VERB", "balk"),
        ("shoved", "VERB", "shove"),
        ("Kites", "PROPN", "kite"),
    ],
)
def test_unseen_forms_follow_the_longest_ending(table, form, pos, lemma):
    assert table.lemma(form, pos) == lemma


def test_irregular_words_and_words_without_rules(table):
    assert table.lemma("men", "NOUN") == "man"
    assert table.lemma("Wore", "VERB") == "wear"
    assert table.lemma("Next", "ADP") == "next"
    assert table.lemma("is", "AUX") == "be"
    assert table.lemma("\U0001f408", "SYM") == "\U0001f408"


def test_a_base_form_by_its_tag_is_left_alone(table):
    assert table.lemma("bring", "VERB", "VB") == "bring"
    assert table.lemma("are", "AUX", "VBP") == "be"  # an exception all the same


def test_the_table_survives_its_file(table):
    again = LemmaTable.from_json(table.to_json())
    assert again == table


def test_learning_does_not_depend_on_the_order_of_distinct_words():
    assert LemmaTable.learn(reversed(SEEN)) == LemmaTable.learn(SEEN)
