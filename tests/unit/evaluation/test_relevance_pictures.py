"""Maps drawn on pictures of any shape."""

import io
from typing import Any

import numpy as np
import PIL.Image
import pytest

from vse.evaluation import relevance_pictures
from vse.evaluation.relevance_maps import Grid, Rectangle
from vse.evaluation.relevance_pictures import DrawnMap, draw_maps

pytestmark = pytest.mark.seconds


@pytest.mark.parametrize("size", [(1, 1), (1, 40), (40, 1), (2, 900), (900, 2)])
def test_a_picture_may_be_one_pixel_wide_or_high(size: tuple[int, int]) -> None:
    """Matplotlib's contour needs two rows and two columns."""
    each = DrawnMap(PIL.Image.new("RGB", size), np.eye(2), Grid(2, 2, Rectangle(0, 0, 1, 1)), "a dog")
    for maps in ([each], [each] * 2):
        drawn = PIL.Image.open(io.BytesIO(draw_maps(maps, "a line")))
        assert max(drawn.size) < 2000


LONG = "a very large and very bright round red ball on the green grass of the park " * 3


@pytest.mark.parametrize(
    ("titles", "columns"),
    [
        (["red ball", LONG, LONG, "y" * 60, LONG], 4),
        ([LONG + "\nvsepp-scenes-s0-642bba2a", "a dog\nvsepp-scenes-s0-642bba2a"], 2),
        ([LONG], 1),
        (["W" * 32, "a 😀 in red", "W" * 70], 3),
    ],
)
def test_a_long_title_stays_above_its_picture(titles: list[str], columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = list[Any]()
    monkeypatch.setattr(relevance_pictures, "figure_png", lambda figure, _: figures.append(figure) or b"")
    picture, grid = PIL.Image.new("RGB", (40, 30)), Grid(2, 2, Rectangle(0, 0, 1, 1))
    draw_maps([DrawnMap(picture, np.eye(2), grid, title) for title in titles], "a line", columns)
    (figure,) = figures
    figure.draw_without_rendering()
    drawn = [axis.title for axis in figure.axes if axis.get_title()]
    assert len(drawn) == len(titles)
    boxes = [title.get_window_extent() for title in drawn]
    for number, box in enumerate(boxes):
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= figure.bbox.x1
        assert box.y1 <= figure.bbox.y1
        assert not any(box.overlaps(other) for other in boxes[number + 1 :])
    for title, given in zip(drawn, titles, strict=True):
        lines = title.get_text().splitlines()
        assert given.splitlines()[1:] == lines[-1:] * ("\n" in given)  # names of runs are left whole
        assert not given.startswith(LONG) or lines[1].endswith(" …")
