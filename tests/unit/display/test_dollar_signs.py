"""Texts of users with dollar signs, which matplotlib would read as formulas, stand in figures as they are."""

import io
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import PIL.Image
import pytest

from tests.unit.report.comparisons import made_up as a_comparison
from vse.display.png import figure_png
from vse.evaluation.component_picture import Level, component_figure
from vse.evaluation.image_grid import (
    NeighbourImages,
    RankedImages,
    ReadImage,
    neighbour_figure,
    ranking_figure,
    reading_figure,
)
from vse.evaluation.localisation_figure import Example, localisation_figure
from vse.evaluation.probes.word_lists_figure import RIGHT, ShownImage, WordList, word_lists_figure
from vse.evaluation.relevance_maps import Grid, Rectangle
from vse.evaluation.relevance_pictures import DrawnMap, draw_maps
from vse.report.comparison_page import comparison_figure
from vse.report.style import blank, rendered, styled

pytestmark = pytest.mark.seconds

TEXT = "$5 #1, $6"  # as a formula it cannot be parsed
PICTURE = PIL.Image.new("RGB", (40, 30))
BOX = np.array([0.1, 0.1, 0.6, 0.6])
SQUARE = Grid.square(4, Rectangle(0, 0, 1, 1))
LIST = WordList(TEXT, ((TEXT, RIGHT), ("b", RIGHT)), TEXT)
VECTORS = np.random.default_rng(0).normal(size=(6, 4))
FIGURES: dict[str, Callable[[], bytes]] = {
    "word lists": lambda: word_lists_figure([ShownImage(PICTURE, TEXT, (LIST,))], [(TEXT, RIGHT)]),
    "maps": lambda: draw_maps([DrawnMap(PICTURE, np.eye(2), SQUARE, TEXT)] * 2, TEXT),
    "localisation": lambda: localisation_figure([Example(PICTURE, [(TEXT, BOX, BOX, True)])], 50.0),
    "neighbours": lambda: neighbour_figure([NeighbourImages(PICTURE, [(PICTURE, 0.5, TEXT)])], TEXT),
    "ranking": lambda: ranking_figure([RankedImages(TEXT, TEXT, [PICTURE], [True])], TEXT),
    "reading": lambda: reading_figure([ReadImage(PICTURE, TEXT, [(TEXT, True)])], TEXT),
    "components": lambda: component_figure([Level(TEXT, [TEXT, *"abcde"], [TEXT, "", *"abcd"], VECTORS)]),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_is_drawn(name: str) -> None:
    with PIL.Image.open(io.BytesIO(FIGURES[name]())) as image:
        assert image.format == "PNG"


def test_a_dollar_sign_is_drawn_once_without_a_backslash() -> None:
    from matplotlib.figure import Figure  # takes half a second

    drawn = []
    for text in ("a $ and $ b", r"a \$ and \$ b"):
        figure = Figure(figsize=(2, 1))
        figure.text(0.1, 0.5, text)
        drawn.append(figure_png(figure, 50))
    plain = Figure(figsize=(2, 1))
    plain.text(0.1, 0.5, "a $ and $ b", parse_math=False)
    assert drawn[0] == figure_png(plain, 50) != drawn[1]


def test_a_sign_that_the_font_lacks_gives_no_warning() -> None:
    """Warnings are errors here."""
    assert draw_maps([DrawnMap(PICTURE, np.eye(2), SQUARE, "a dog 🐶 一")], "🐱")


def test_figures_of_reports() -> None:
    comparison = a_comparison(3)
    systems = tuple(replace(system, label=f"{system.label} {TEXT}") for system in comparison.systems)
    drawn = comparison_figure(replace(comparison, systems=systems), "test")
    assert TEXT in drawn["svg"].decode()
    with styled():
        figure = blank(1.0)
        figure.suptitle(TEXT)
        assert TEXT in rendered(figure)["svg"].decode()
