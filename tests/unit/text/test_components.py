import json

import pytest

from tests.unit.text.component_cases import CASES
from tests.unit.text.trees import CLOCK_CLEAR, CLOCK_UD, tree, words
from tests.unit.text.write_golden import GOLDEN, as_lists
from vse.text.components import EMPTY, REVISION, Components, Modifier, extract
from vse.text.parse import ParsedToken
from vse.text.parser import Parser, shared_parser


@pytest.mark.parametrize("spec", [CLOCK_UD, CLOCK_CLEAR], ids=["ud", "clear"])
def test_the_papers_example_in_both_label_sets(spec):
    assert words(spec) == ({"clock", "wall", "table"}, {"white clock"}, {"clock on wall", "clock above table"})


def test_token_indices_point_at_the_words():
    found = extract(tree(CLOCK_UD))
    assert [(o.word, o.token) for o in found.objects] == [("clock", 2), ("wall", 5), ("table", 9)]
    assert [(a.token, a.noun_token) for a in found.attributes] == [(1, 2)]
    assert [(r.subject_token, r.tokens, r.object_token) for r in found.relations] == [(2, (3,), 5), (2, (7,), 9)]


def test_an_empty_parse_has_no_components():
    assert extract(()) == EMPTY == Components((), (), ())


@pytest.mark.parametrize(
    ("spec", "objects", "attributes", "relations"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_rules(spec, objects, attributes, relations):
    assert words(spec) == (objects, attributes, relations)


def test_components_of_stored_parses_change_with_the_revision_only():
    golden = json.loads(GOLDEN.read_text())
    assert golden["revision"] == REVISION, "rules changed: run tests/unit/text/write_golden.py"
    assert len(golden["captions"]) == 60
    for row in golden["captions"]:
        found = as_lists(row["parse"])
        assert {kind: row[kind] for kind in found} == found, row["text"]


@pytest.mark.parametrize(
    ("caption", "nouns", "modifiers"),
    [
        ("A small striped green box is next to a candle.", set(), {"striped box", "green box"}),
        ("An old black and white dog with a tennis racket.", {"tennis"}, {"black dog", "white dog", "tennis racket"}),
        ("The dog that is brown and happy sits.", set(), {"happy dog"}),
        ("A dark blue shirt on a tall young man.", set(), {"blue shirt", "young man"}),
        ("The cup is large, red and spotted.", set(), {"red cup", "spotted cup"}),
        ("A group of two young men.", {"group", "men"}, set()),
        ("A cat on a mat.", set(), set()),
    ],
)
def test_what_a_caption_says_beside_its_components(caption, nouns, modifiers):
    found = extract(shared_parser(Parser.Config()).parse(caption))
    assert set(found.nouns) == nouns
    assert {f"{m.word} {m.noun}" for m in found.modifiers} == modifiers
    assert not {*found.modifiers} & {Modifier(a.word, a.noun) for a in found.attributes}


def test_malformed_trees_never_hang_or_crash():
    two = (ParsedToken("a", 0, 1, "a", "NN", "NOUN", 1, "conj"), ParsedToken("b", 2, 3, "b", "NN", "NOUN", 0, "conj"))
    assert extract(two).relations == ()
    verbs = (
        ParsedToken("a", 0, 1, "a", "VB", "VERB", 1, "advcl"),
        ParsedToken("b", 2, 3, "b", "VB", "VERB", 0, "acl:relcl"),
    )
    assert extract(verbs) == EMPTY


def test_a_chain_of_thousands_of_conjuncts_is_no_recursion():
    chain = tuple(ParsedToken("cat", 0, 3, "cat", "NN", "NOUN", max(i - 1, 0), "conj") for i in range(2000))
    assert len(extract(chain).objects) == 2000
