"""Samples for people, and what a source says of all adversaries."""

import dataclasses

import pytest

from vse.config import override
from vse.data.records import Image
from vse.presets import preset
from vse.studies.adversary_samples import KINDS, SampleOptions, drawn, judged_by_source, listing, sheets
from vse.studies.adversary_verdicts import tally
from vse.workspace.layout import Workspace

pytestmark = pytest.mark.seconds

CONFIG = override(
    preset("univse_tiny"), {"data.num_train": 60, "data.num_val": 2, "data.num_test": 12, "data.num_shifted": 2}
)
OPTIONS = SampleOptions(splits=("test",), images=6, number=7)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return Workspace.open(str(tmp_path_factory.mktemp("judging")))


def test_a_draw_spreads_over_its_images(place):
    images, shown = drawn(CONFIG, place, OPTIONS)
    assert len({image.id for image in images}) == 6
    assert {one.image for one in shown} <= {image.id for image in images}
    nouns = [one for one in shown if one.kind == "noun"]
    assert len(nouns) == 7
    assert len({one.image for one in nouns[:6]}) == 6
    assert list(dict.fromkeys(one.kind for one in shown)) == [k for k in KINDS if k in {one.kind for one in shown}]
    assert drawn(CONFIG, place, OPTIONS) == (images, shown)
    assert drawn(CONFIG, place, dataclasses.replace(OPTIONS, sample="second"))[0] != images
    text = listing(images, shown)
    assert all(one.text in text for one in shown)
    made = list(sheets(CONFIG, images, 4))
    assert [sheet.size for sheet in made] == [(1290, 860), (860 + 430, 430)]
    blank = [one.verdict("first") for one in nouns]
    assert all(one.caption not in str(verdict) for one, verdict in zip(nouns, blank, strict=True))
    assert tally([dataclasses.replace(v, grammatical=True, false=True) for v in blank])[0].good.value == 1


def test_a_source_that_knows_judges_them_all(place):
    rows = judged_by_source(CONFIG, place, OPTIONS)
    assert rows is not None
    assert [row.kind for row in rows] == list(KINDS)
    noun = rows[0]
    assert noun.false.total > 100
    assert noun.false.value == 1
    for row in rows:
        assert row.false.hits + row.true.hits + row.unread.hits == row.false.total


def test_photographs_have_no_such_source(place):
    assert judged_by_source(preset("univse_flickr8k"), place, OPTIONS) is None
    assert Image("i", "i.png", "test") not in drawn(CONFIG, place, OPTIONS)[0]
