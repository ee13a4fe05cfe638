"""Relevance maps drawn on their pictures, as in UniVSE's Fig. 6."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import PIL.Image
from jaxtyping import Float

from vse.display.png import figure_png, wrapped
from vse.evaluation.relevance_maps import Grid, Rectangle, grounded, upsampled

_COLUMNS, _CELL = 4, 2.3  # pictures a row, inches of one
_LETTERS, _SIZE = 32, 8  # of a title in a line as wide as a picture, and their size in points


@dataclass(frozen=True, eq=False)
class DrawnMap:
    """A map with its picture. `boxes` are drawn in green. `title` stands above, each of its lines in two at most."""

    picture: PIL.Image.Image
    relevance: Float[np.ndarray, "rows columns"]
    grid: Grid
    title: str
    boxes: tuple[Rectangle, ...] = ()


def draw_maps(maps: Sequence[DrawnMap], caption: str = "", columns: int = _COLUMNS) -> bytes:
    """A PNG with every map over its picture: bright where relevant, the grounded area outlined in orange, a cross at
    the largest cell, and boxes in green.

    Args:
        maps: At least one.
        caption: A line at the bottom.
        columns: Maps in a row, at most.
    """
    from matplotlib.figure import Figure  # takes half a second

    columns = min(columns, len(maps))
    rows = -(-len(maps) // columns)
    ratio = min(max(each.picture.height / each.picture.width for each in maps), 1.0)
    wide = 2 if len(maps) == 1 else 1
    titles = ["\n".join(_fitted(line, wide) for line in each.title.split("\n")) for each in maps]
    more = 0.16 * max(title.count("\n") for title in titles)
    title = 0.30 + more
    size = (_CELL * columns, (_CELL * ratio + title) * rows + 0.3)
    if len(maps) == 1:  # as wide as two, and as high as its picture
        (width, height), wide = maps[0].picture.size, 2 * _CELL
        size = (wide, min(wide * height / width, 2 * wide) + (0.5 if caption else 0.3) + more)
    figure = Figure(figsize=size, layout="constrained")
    axes = np.asarray(figure.subplots(rows, columns, squeeze=False)).ravel()
    for axis in axes:
        axis.set_axis_off()
    for axis, each, text in zip(axes, maps, titles, strict=False):
        _draw(axis, each)
        axis.set_title(text, fontsize=_SIZE)
    if caption:
        figure.supxlabel(caption, fontsize=7)
    return figure_png(figure, 110)


def _fitted(title: str, pictures: int) -> str:
    """A title in two lines at most, each as wide as some pictures; wide letters are fewer."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font, letters = FontProperties(size=_SIZE), _LETTERS * pictures

    def width(text: str) -> float:
        return max(text_to_path.get_text_width_height_descent(line, font, False)[0] for line in text.split("\n"))

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph ", UserWarning)  # of an emoji
        while letters > 2 and width(wrapped(title, letters, 2)) > 72 * _CELL * pictures:
            letters -= 1
    return wrapped(title, letters, 2)


def _draw(axis: object, each: DrawnMap) -> None:
    from matplotlib.axes import Axes
    from matplotlib.patches import Rectangle as Patch

    assert isinstance(axis, Axes)
    width, height = each.picture.size
    values = upsampled(each.relevance, each.grid, each.picture.size)
    share = (values / max(values.max(), 1e-12))[..., None]
    pixels = np.asarray(each.picture.convert("RGB"), dtype=np.float32) / 255
    grey = pixels.mean(-1, keepdims=True).repeat(3, -1)
    axis.imshow((0.6 * grey * (1 - share) + pixels * share).clip(0, 1), extent=(0, width, height, 0))
    if min(width, height) > 1:  # matplotlib draws no contour through a single row or column
        across, down = np.arange(width) + 0.5, np.arange(height) + 0.5
        axis.contour(across, down, grounded(values), [0.5], colors="#E69F00", linewidths=1.2)
    for box in each.boxes:
        corner = (box.left * width, box.top * height)
        size = ((box.right - box.left) * width, (box.bottom - box.top) * height)
        axis.add_patch(Patch(corner, *size, fill=False, edgecolor="#2EE59D", linewidth=1.4))
    row, column = np.unravel_index(int(each.relevance.argmax()), each.relevance.shape)
    across, down = each.grid.centres
    axis.plot(
        across[column] * width, down[row] * height, marker="x", color="#FF3B30", markersize=7, markeredgewidth=1.8
    )
