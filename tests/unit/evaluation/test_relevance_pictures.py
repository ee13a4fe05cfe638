"""Maps drawn on pictures of any shape."""

import io

import numpy as np
import PIL.Image
import pytest

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
