from pathlib import Path

import pytest

from tests.parser_accuracy import mistakes, score, words_of
from tests.unit.text.trees import CLOCK_UD, tree
from vse.data.annotated_captions import AnnotatedCaption, read_annotated
from vse.text.components import EMPTY, extract

DATA = Path(__file__).parents[2] / "data"


def gold(objects=(), attributes=(), relations=(), optional=()):
    def required(items):
        return tuple(frozenset(item) for item in items)

    return AnnotatedCaption(
        filename="1.jpg",
        caption="",
        required={
            "objects": required(objects),
            "attributes": required(attributes),
            "relations": required(relations),
        },
        optional={"objects": frozenset(), "attributes": frozenset(), "relations": frozenset(optional)},
    )


CLOCK = extract(tree(CLOCK_UD))  # clock wall table; white clock; clock on wall, clock above table


def test_hits_wrong_finds_and_misses_are_counted():
    wanted = gold(
        objects=[[("clock",)], [("wall",)], [("chair",)]],
        attributes=[[("white", "clock")]],
        relations=[[("clock", "above", "table")], [("wall", "behind", "table")]],
    )
    result = score([wanted], [CLOCK])
    assert (result["objects"].right, result["objects"].found, result["objects"].wanted) == (2, 3, 3)
    assert result["objects"].precision == pytest.approx(2 / 3)
    assert result["attributes"].f1 == 1.0
    assert (result["relations"].right, result["relations"].found, result["relations"].wanted) == (1, 2, 2)
    assert result["relations"].f1 == pytest.approx(0.5)


def test_of_several_readings_one_counts_and_the_rest_are_free():
    either = [[("clock", "on", "wall"), ("clock", "above", "table"), ("table", "below", "clock")]]
    result = score([gold(relations=either)], [CLOCK])["relations"]
    assert (result.right, result.found, result.wanted) == (1, 1, 1)
    assert mistakes(gold(relations=either), EMPTY, "relations") == (0, [], [frozenset(either[0])])


def test_optional_items_count_neither_way():
    wanted = gold(relations=[[("clock", "on", "wall")]], optional=[("clock", "above", "table")])
    assert score([wanted], [CLOCK])["relations"].f1 == 1.0
    assert score([gold(optional=[("clock", "on", "wall")])], [EMPTY])["relations"].f1 == 1.0


def test_nothing_found_and_nothing_wanted_is_perfect_but_finds_where_none_are_wanted_are_not():
    assert score([gold()], [EMPTY])["objects"].precision == 1.0
    assert score([gold()], [CLOCK])["objects"].precision == 0.0
    assert score([gold()], [CLOCK])["objects"].f1 == 0.0


@pytest.mark.parametrize("name", ["dev", "test"])
def test_annotated_captions_are_well_formed(name):
    rows = read_annotated(f"{DATA}/parser_gold_{name}.json")
    assert len(rows) == 150
    assert len({row.filename for row in rows}) == 150
    for row in rows:
        for kind, width in (("objects", 1), ("attributes", 2), ("relations", 3)):
            for item in [i for readings in row.required[kind] for i in readings] + list(row.optional[kind]):
                assert len(item) == width
                assert all(word == word.lower().strip() for word in item)
        named = {word for readings in row.required["objects"] for (word,) in readings} | {
            word for (word,) in row.optional["objects"]
        }
        for readings in row.required["relations"]:
            for subject, _, obj in readings:
                assert {subject, obj} <= named, (row.caption, readings)
        for readings in row.required["attributes"]:
            for _, noun in readings:
                assert noun in named, (row.caption, readings)


def test_development_and_test_share_no_image():
    images = [{row.filename for row in read_annotated(f"{DATA}/parser_gold_{name}.json")} for name in ("dev", "test")]
    assert not images[0] & images[1]


def test_words_of_an_extraction():
    assert words_of(CLOCK)["relations"] == {("clock", "on", "wall"), ("clock", "above", "table")}
