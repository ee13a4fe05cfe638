"""The page of a search stands alone, marks what is true, and escapes what it is given."""

from dataclasses import replace

import pytest

from tests.unit.report.pages import PROVENANCE, Outline
from vse.inference.image_search import Answer, Hit, Item, SearchResult
from vse.presets import preset
from vse.report.search_page import MOST, lines, search_page


def hit(rank: int, score: float, true: bool = False) -> Hit:
    return Hit(rank, score, Item(f"image <{rank}>", f"{rank}.png", f"caption {rank} of 3 < 4"), true)


ANSWER = Answer(
    query='a "red" <ball>, or none',
    hits=(hit(1, 0.75), hit(2, 0.5, true=True)),
    missed=(hit(1234, -0.25, true=True),),
    median=0.25,
    highest=0.75,
    unknown=("xanadu",),
)
FOUND = SearchResult(
    config=preset("univse_tiny"),
    facts={"run": "univse-scenes-s0", "family": "univse", "α": "0.7", "checkpoint": "epoch-0003"},
    fingerprints={},
    what="images",
    among="split test of scenes",
    number=2000,
    root="somewhere",
    answers=(ANSWER,),
)


def shown(uri: str) -> str:
    return "" if uri == "2.png" else f"data:image/jpeg;base64,{uri[0]}"


def test_a_sentence_with_its_images() -> None:
    text = search_page(FOUND, shown, PROVENANCE)
    outline = Outline(text)
    assert outline.open == []
    assert outline.links == ["data:image/jpeg;base64,1"] * 2  # of 1 and 1234; nothing is fetched
    for words in (
        "2,000 images searched by a sentence",
        "data split test of scenes candidates 2,000 images run univse-scenes-s0 family univse α 0.7",
        'a "red" <ball>, or none',
        "true images: ranks 2, 1,234",
        "not in the vocabulary: xanadu",
        "0.750",
        "-0.250",
        "image <1>",
        "caption 2 of 3 < 4",
        "no picture to show",
        PROVENANCE.commands[0],
    ):
        assert words in outline.text, words
    assert text.count('class="tile"') == 1
    assert text.count('class="tile true"') == 1
    assert text.count('class="tile true missed"') == 1
    assert [part.split("%")[0] for part in text.split('style="width: ')[1:]] == ["100.0", "50.0", "0.0"]


def test_equal_scores_make_full_bars() -> None:
    same = replace(ANSWER, median=0.75, highest=0.75, hits=(hit(1, 0.75),), missed=())
    assert 'style="width: 100.0%"' in search_page(replace(FOUND, answers=(same,)), shown, PROVENANCE)


def test_a_picture_with_its_captions() -> None:
    rows = tuple(replace(each, item=replace(each.item, uri="")) for each in ANSWER.hits)
    answer = Answer("image <7>", rows, (), 0.25, 0.75)
    text = search_page(replace(FOUND, what="captions", answers=(answer,), picture="7.png"), shown, PROVENANCE)
    outline = Outline(text)
    assert outline.open == []
    assert outline.links == ["data:image/jpeg;base64,7"]
    assert "2,000 captions searched by a picture" in outline.text
    assert "true caption: rank 2" in outline.text
    assert text.count('<li class="line true">') == 1


def test_very_many_sentences_are_not_all_on_the_page() -> None:
    many = tuple(replace(ANSWER, query=f"sentence {k}") for k in range(MOST + 3))
    outline = Outline(search_page(replace(FOUND, answers=many), shown, PROVENANCE))
    assert "searched by sentences" in outline.text
    assert f"sentence {MOST - 1}" in outline.text
    assert f"sentence {MOST}”" not in outline.text
    assert "The other 3 sentences are answered in summary.json." in outline.text


@pytest.mark.parametrize(("what", "picture", "noun"), [("pictures", "", "picture"), ("captions", "7.png", "caption")])
def test_one_candidate_is_no_plural(what: str, picture: str, noun: str) -> None:
    one = replace(FOUND, what=what, number=1, picture=picture)
    outline = Outline(search_page(one, shown, PROVENANCE))
    assert f"1 {noun} searched by a {'picture' if picture else 'sentence'}" in outline.text
    assert f"median score of the 1 {noun} and" in outline.text
    assert f"1 {what}" not in outline.text
    assert next(iter(lines(one))) == f'a "red" <ball>, or none: best of 1 {noun} of split test of scenes'
    more = replace(FOUND, answers=(ANSWER,) * (MOST + 1))
    assert "The other sentence is answered in summary.json." in Outline(search_page(more, shown, PROVENANCE)).text


def test_pictures_that_were_left_out_are_listed() -> None:
    outline = Outline(search_page(replace(FOUND, rejects={"a<b>.png": "file is empty"}), shown, PROVENANCE))
    assert "1 unreadable a<b>.png file is empty" in outline.text


@pytest.mark.parametrize("root", ["", "/data"])
def test_lines_say_rank_score_id_and_place(root: str) -> None:
    head, first, second, last, mark, unknown = lines(replace(FOUND, root=root))
    assert head == 'a "red" <ball>, or none: best of 2,000 images of split test of scenes'
    assert first.split() == ["1", "0.7500", "image", "<1>", f"{root}/1.png".removeprefix("/" * (not root))]
    assert second.startswith("*    2")
    assert last.startswith("*1,234    -0.2500")
    assert mark == "* true by the data set"
    assert unknown == "not in the vocabulary: xanadu"


def test_names_and_captions_cannot_steer_a_terminal_or_break_a_page() -> None:
    item = Item("\x1b[2Ja\nb", "caf\udce9.jpg", "a dog")
    hostile = replace(FOUND, answers=(replace(ANSWER, hits=(Hit(1, 0.5, item, False), hit(2, 0.25)), missed=()),))
    _, first, second, *_ = lines(hostile)
    assert "\\x1b[2Ja\\nb" in first
    assert first.index("/") == second.index("/")
    assert "\\x1b[2Ja" in search_page(hostile, shown, PROVENANCE).encode().decode()
