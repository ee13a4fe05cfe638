"""A figure of images with lists of words, one list for each table of word vectors."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import PIL.Image

from vse.display.png import figure_png

RIGHT, WRONG, NEITHER, INK = "#00724F", "#B3401A", "#6B7280", "#222222"
MOST_LISTS = 4  # next to an image
_PICTURE, _LIST, _LINE, _GAP, _DOTS = 1.7, 1.55, 0.17, 0.28, 110  # inches; dots an inch
_LETTERS = 14  # of a word or a title that fit into a list


@dataclass(frozen=True, slots=True)
class WordList:
    """A list: its title, words with their colours, the best first, and what stands behind the title."""

    title: str
    words: tuple[tuple[str, str], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class ShownImage:
    """An image, what is said of it above, and its lists. `picture` is None if the data have no pictures."""

    picture: PIL.Image.Image | None
    heading: str
    lists: tuple[WordList, ...]


def word_lists_figure(rows: Sequence[ShownImage], legend: Sequence[tuple[str, str]]) -> bytes:
    """A PNG with a row for each image.

    Args:
        rows: At least one; the same number of lists in each, of which the first four are drawn.
        legend: (text, colour) below the rows.
    """
    from matplotlib.figure import Figure  # takes half a second

    lists = min(max(len(row.lists) for row in rows), MOST_LISTS)
    width = max(_PICTURE + 2 * _GAP + lists * _LIST, 5.0)
    headings = [textwrap.wrap(row.heading, int(width / 0.078)) for row in rows]
    heights = [
        max(_PICTURE, (2 + max(len(each.words) for each in row.lists)) * _LINE) + (len(lines) + 1.6) * _LINE
        for row, lines in zip(rows, headings, strict=True)
    ]
    height = sum(heights) + 0.4
    figure = Figure(figsize=(width, height), facecolor="white")
    top = height
    for row, lines, size in zip(rows, headings, heights, strict=True):
        _row(figure, row, lines, top, lists)
        top -= size
    place = _GAP
    for text, colour in legend:
        figure.text(place / width, 0.14 / height, text, color=colour, fontsize=7.5, weight="bold")
        place += 0.068 * len(text) + 0.35
    return figure_png(figure, _DOTS)


def _row(figure: Any, row: ShownImage, heading: Sequence[str], top: float, lists: int) -> None:
    width, height = figure.get_size_inches()
    below = top - (len(heading) + 1.0) * _LINE
    for number, line in enumerate(heading):
        figure.text(_GAP / width, (top - (number + 1) * _LINE) / height, line, color=INK, fontsize=8, weight="bold")
    if row.picture is not None:
        axis = figure.add_axes((_GAP / width, (below - _PICTURE) / height, _PICTURE / width, _PICTURE / height))
        axis.imshow(row.picture, aspect="equal")
        axis.set_anchor("NW")
        axis.axis("off")
    for number, each in enumerate(row.lists[:lists]):
        left = (_PICTURE + 2 * _GAP + number * _LIST) / width
        figure.text(
            left,
            (below - 0.6 * _LINE) / height,
            f"{_short(each.title, 21 - len(each.note))} {each.note}",
            color=NEITHER,
            fontsize=7,
        )
        for place, (word, colour) in enumerate(each.words, 2):
            style = {"color": colour, "fontsize": 8.5, "weight": "bold" if colour == RIGHT else "normal"}
            figure.text(left, (below - place * _LINE) / height, _short(word, _LETTERS), **style)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
