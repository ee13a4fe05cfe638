"""Verdicts of people: shares with Wilson's interval, and files that quote no caption."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vse.adversaries.univse.editor import Edit
from vse.errors import InputError
from vse.studies.adversary_verdicts import (
    Share,
    Verdict,
    from_json_lines,
    item_hash,
    table,
    tally,
    to_json_lines,
    without_caption,
)

CAPTION = "A small dog chases a red ball"


def verdict(
    grammatical: bool | None = True, false: bool | None = True, sample: str = "one", paradigm: str = "noun"
) -> Verdict:
    return Verdict(
        sample=sample,
        paradigm=paradigm,
        item=item_hash("i", CAPTION),
        edits=((2, 7, "kite"),),
        grammatical=grammatical,
        false=false,
    )


def test_wilson_published_values():
    # Newcombe, Statistics in Medicine 17 (1998), table I, method 3
    for hits, total, low, high in (
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ):
        found = Share(hits, total).interval
        assert found == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 400), st.data())
def test_the_interval_is_where_the_score_test_does_not_reject(total, data):
    hits = data.draw(st.integers(0, total))
    share = Share(hits, total)
    low, high = share.interval
    assert 0 <= low <= share.value <= high <= 1
    for end in {low, high} - {0.0, 1.0}:
        score = (share.value - end) / math.sqrt(end * (1 - end) / total)
        assert abs(abs(score) - 1.959964) < 1e-4 or hits in (0, total)


def test_nothing_says_nothing():
    assert Share(0, 0).interval == (0.0, 1.0)
    assert math.isnan(Share(0, 0).value)


def test_rows_count_both_questions():
    rows = tally([verdict(), verdict(grammatical=False), verdict(false=False), verdict(sample="two", false=False)])
    assert [(row.sample, row.grammatical.hits, row.false.hits, row.good.hits) for row in rows] == [
        ("one", 2, 2, 1),
        ("two", 1, 0, 0),
    ]
    assert [line.split()[:2] for line in table(rows)] == [["sample", "paradigm"], ["one", "noun"], ["two", "noun"]]
    with pytest.raises(InputError, match="1 of 2 are not filled in"):
        tally([verdict(), verdict(false=None)])


def test_files():
    kept = [verdict(), verdict(grammatical=None, false=None), verdict(sample="a\u2028b\x85c")]
    assert from_json_lines(to_json_lines(kept), "file") == kept
    assert CAPTION not in to_json_lines(kept)
    for torn in ("{}", "[]", to_json_lines([verdict()]).replace("true", "3"), "no json"):
        with pytest.raises(InputError, match="file, line 1: not a valid verdict"):
            from_json_lines(torn, "file")


def test_edits_quote_no_phrase_of_the_caption():
    edits = (Edit(0, 11, "A red ball"), Edit(19, 29, "a small dog"), Edit(2, 7, "two"))
    assert without_caption(edits, CAPTION) == ((0, 11, "@19:29"), (19, 29, "@0:11"), (2, 7, "two"))
    assert item_hash("i", CAPTION) != item_hash("j", CAPTION)
