"""Figures of photographs with a line of text: ranked images of queries, nearest images, and what was read of images."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import PIL.Image

from vse.display.png import figure_png, wrapped

RIGHT, WRONG, INK, SOFT = "#009E73", "#D55E00", "#222222", "#6B7280"  # of Okabe & Ito's palette, and two greys
WIDTH = 7.0  # inches
TILE = 144  # pixels of the longer side of a photograph
DOTS = 150  # an inch


@dataclass(frozen=True, eq=False)
class RankedImages:
    """A query with its best images.

    Args:
        title: The query.
        note: A line below it.
        images: In order of their scores.
        relevant: Which of them are right.
    """

    title: str
    note: str
    images: Sequence[PIL.Image.Image]
    relevant: Sequence[bool]


@dataclass(frozen=True, eq=False)
class ReadImage:
    """An image with its caption and answers about it: (text, whether it is right) each."""

    image: PIL.Image.Image
    caption: str
    answers: Sequence[tuple[str, bool]]


@dataclass(frozen=True, eq=False)
class NeighbourImages:
    """An image with its nearest images: (image, overlap with the first one, what both show) each, nearest first."""

    image: PIL.Image.Image
    nearest: Sequence[tuple[PIL.Image.Image, float, str]]


def neighbour_figure(rows: Sequence[NeighbourImages], title: str) -> bytes:
    """A PNG with a row for each image: it and its nearest images, each with the overlap and what both show."""
    columns = 1 + max(len(row.nearest) for row in rows)
    figure = _figure(1.45 * len(rows) + 0.4, title)
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for line, row in zip(grid, rows, strict=True):
        for axis in line:
            axis.axis("off")
        _draw(line[0], row.image, INK)
        line[0].set_title("image", fontsize=7, fontweight="bold", color=INK, pad=3)
        for axis, (image, overlap, common) in zip(line[1:], row.nearest, strict=False):
            _draw(axis, image, SOFT)
            axis.set_title(f"overlap {overlap:.0%}", fontsize=7, color=RIGHT if overlap else WRONG, pad=3)
            axis.set_xlabel(wrapped(common or "nothing in common", 22, 2), fontsize=6, color=SOFT, labelpad=2)
    return figure_png(figure, 120)


def ranking_figure(rows: Sequence[RankedImages], title: str) -> bytes:
    """A PNG with a row of images for each query; right ones have a green frame and a tick, others an orange cross."""
    columns = max(len(row.images) for row in rows)
    figure = _figure(1.22 * len(rows) + 0.4, title)
    grid = figure.subplots(len(rows), columns + 1, squeeze=False, width_ratios=[1.9, *[1] * columns])
    for line, row in zip(grid, rows, strict=True):
        for axis in line:
            axis.axis("off")
        line[0].text(0, 0.56, wrapped(row.title, 24), va="bottom", fontsize=8, fontweight="bold", color=INK)
        line[0].text(0, 0.46, row.note, va="top", fontsize=6.5, color=SOFT, linespacing=1.5)
        for axis, image, right in zip(line[1:], row.images, row.relevant, strict=False):
            _draw(axis, image, RIGHT if right else WRONG)
            axis.set_title("✓" if right else "✗", fontsize=8, color=RIGHT if right else WRONG, pad=2)
    return figure_png(figure, DOTS)


def reading_figure(rows: Sequence[ReadImage], title: str) -> bytes:
    """A PNG with two images a line, each with its caption and the answers next to it."""
    lines = -(-len(rows) // 2)
    figure = _figure(1.4 * lines + 0.4, title)
    grid = figure.subplots(lines, 4, squeeze=False, width_ratios=[1, 1.9, 1, 1.9])
    for axis in grid.flat:
        axis.axis("off")
    for number, row in enumerate(rows):
        picture, text = grid[number // 2][2 * (number % 2) :][:2]
        _draw(picture, row.image, SOFT)
        picture.set_anchor("N")
        caption = wrapped(row.caption, 40)
        text.text(0, 1, caption, va="top", fontsize=7, color=INK, linespacing=1.3)
        top = 0.95 - 0.11 * (caption.count("\n") + 1)
        for place, (answer, right) in enumerate(row.answers):
            sign, colour = ("✓", RIGHT) if right else ("✗", WRONG)
            text.text(0, top - 0.115 * place, f"{sign} {answer}", va="top", fontsize=6.5, color=colour)
    return figure_png(figure, DOTS)


def _figure(height: float, title: str) -> Any:
    from matplotlib.figure import Figure  # takes half a second

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    figure.suptitle(title, x=0.01, ha="left", fontsize=9, fontweight="bold", color=INK)
    return figure


def _draw(axis: Any, image: PIL.Image.Image, colour: str) -> None:
    small = image.copy()
    small.thumbnail((TILE, TILE))
    axis.axis("on")
    axis.imshow(np.asarray(small), interpolation="antialiased")
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_visible(True)
        spine.set_color(colour)
        spine.set_linewidth(1.8)
