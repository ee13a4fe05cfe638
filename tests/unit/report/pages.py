"""Pages as a reader sees them: text, sources of pictures, and whether every tag is closed."""

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

from vse.report.page import Provenance, render
from vse.report.tables import Table

SVG = b'<svg width="504pt" viewBox="0 0 504 100"></svg>'
PROVENANCE = Provenance(
    commands=["python jobs/sweep_alpha.py --preset univse_scenes"],
    configuration={"univse": {"optim.lr": 0.002}},
    versions={"torch": "2.14"},
    facts={"machine": "a <small> one"},
)


class Outline(HTMLParser):
    """The text of a page outside its style, its links, and the tags that are still open at its end."""

    EMPTY = ("meta", "img", "br", "wbr")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = [value or "" for key, value in attrs if key in ("src", "href")]
        self.links += [value for value in values if not value.startswith("#")]
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def table_element(table: Table) -> ElementTree.Element:
    """A table as pages show it."""
    return ElementTree.fromstring(render("table.html", table=table).strip())
