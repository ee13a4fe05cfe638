import pytest

from tests.unit.text.trees import words
from vse.text.components import extract
from vse.text.parser import Parser, shared_parser


@pytest.mark.parametrize(
    ("text", "objects"),
    [
        ("There isn't any food on the plate.", {"plate"}),
        ("There are never any cars on this road.", {"road"}),
        ("A man without shoes or socks sits on the beach.", {"man", "beach"}),
        ("Nobody is sitting on the bench.", {"bench"}),
        ("No one rides the horse near the barn.", {"horse", "barn"}),
        ("A room with no windows and a single bed.", {"room", "bed"}),
        ("A room with a bed but without a lamp.", {"room", "bed"}),
        ("None of the men are wearing a tie.", {"man"}),
        ("A child isn't holding a toy or a book.", {"child"}),
        ("The table has neither plates nor cups.", {"table"}),
        ("The cat is not on the sofa.", {"cat", "sofa"}),
        ("A no parking sign on a pole.", {"sign", "pole"}),
        ("Not only a dog but also a cat lies on the bed.", {"dog", "cat", "bed"}),
        ("A man no longer wearing a hat holds a cup.", {"man", "cup"}),
    ],
)
def test_what_is_said_not_to_be_there_is_no_object(text, objects):
    found = extract(shared_parser(Parser.Config()).parse(text))
    assert {o.word for o in found.objects} == objects


@pytest.mark.parametrize(
    "text", ["The cat is not on the sofa.", "The sky is not blue.", "No man is riding the horse.", "He has no red hat."]
)
def test_what_is_denied_is_no_component(text):
    found = extract(shared_parser(Parser.Config()).parse(text))
    assert not found.relations
    assert not found.attributes


def test_an_absent_noun_serves_as_no_negative():
    found = extract(shared_parser(Parser.Config()).parse("There is no dog on the grass."))
    assert "dog" in found.nouns


def test_negation_in_the_labels_of_published_pipelines():
    spec = (
        "man/man/NOUN/NN/4/nsubj is/be/AUX/VBZ/4/aux not/not/PART/RB/4/neg wearing/wear/VERB/VBG/0/ROOT "
        "a/a/DET/DT/6/det hat/hat/NOUN/NN/4/dobj"
    )
    assert words(spec) == ({"man"}, set(), set())
    spec = "street/street/NOUN/NN/0/ROOT without/without/ADP/IN/1/prep any/any/DET/DT/4/det cars/car/NOUN/NNS/2/pobj"
    assert words(spec) == ({"street"}, set(), set())
