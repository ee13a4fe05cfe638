"""Pages stand alone, show what they must and escape what they are given."""

import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tests.unit.report.results import made_up
from vse.report.html import Provenance, alpha_page, metrics_page
from vse.report.tables import alpha_table

PROVENANCE = Provenance(
    commands=["python jobs/sweep_alpha.py --preset univse_scenes"],
    configuration={"univse": {"optim.lr": 0.002}},
    versions={"torch": "2.14"},
    facts={"machine": "a <small> one"},
)


class Outline(HTMLParser):
    """Text, sources of pictures, and whether every tag is closed."""

    EMPTY = ("meta", "img", "br", "wbr")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for key, value in attrs if key in ("src", "href")]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


@pytest.mark.parametrize("complete", [True, False])
def test_a_sweep_on_one_page(complete: bool) -> None:
    results = made_up(reference=complete, learned=complete)
    outline = Outline(alpha_page(results, alpha_table(results), b"\x89PNG", PROVENANCE))
    assert outline.open == []
    assert outline.links == ["data:image/png;base64,iVBORw=="]  # nothing is fetched
    for words in (
        results.rule,
        "It chose α = 0.7",
        "python jobs/sweep_alpha.py --preset univse_scenes",
        "0.002",
        "2.14",
    ):
        assert words in outline.text
    assert "a <small> one" in outline.text
    assert ("VSE++" in outline.text) == complete


def test_headline_numbers_are_those_of_the_table() -> None:
    results = made_up()
    table = alpha_table(results)
    text = Outline(alpha_page(results, table, b"", PROVENANCE)).text
    assert table.rows[2].values[0] is not None
    assert f"{table.rows[2].values[0].mean:.1f} test rsum, plain" in text


def test_names_are_escaped() -> None:
    results = replace(made_up(), name="<script>alert(1)</script>")
    assert "<script>" not in alpha_page(results, alpha_table(results), b"", PROVENANCE)


def test_runs_on_one_page() -> None:
    outline = Outline(metrics_page("2 runs", "a, b", {"a": {"x": 1.0}, "b": {"x": 2.0}}, PROVENANCE))
    assert outline.open == []
    assert "1.00" in outline.text
    assert "2.00" in outline.text


def test_a_page_of_runs_has_facts_and_notes_and_a_table_that_scrolls() -> None:
    rows, facts = {"a": {"test/rsum": 1.0}, "b": {}}, {"a": {"family": "<univse>"}}
    page = metrics_page("2 runs", "a, b", rows, PROVENANCE, facts=facts, notes=["not evaluated: b", "one <more>"])
    outline = Outline(page)
    assert outline.open == []
    assert "not evaluated: b one <more>" in outline.text
    assert outline.text.index("family") < outline.text.index("<univse>") < outline.text.index("retrieval: test")
    style = page.partition("</style>")[0]
    assert re.search(r"\.scroll \{[^}]*overflow: auto", style)
    assert re.search(r'<div class="panel scroll" tabindex="0"><table>', page)


def test_the_page_reaches_for_nothing_outside_the_file() -> None:
    """MLflow shows it in a frame of its own, perhaps without a network."""
    results = made_up()
    found = alpha_page(results, alpha_table(results), b"a picture", PROVENANCE)
    assert re.findall(r"""(?:src|href)=["'](?!data:|#)[^"']*|url\(\s*["']?(?!data:)|@import|<script""", found) == []
