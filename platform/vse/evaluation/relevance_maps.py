"""Relevance maps of a picture against annotated boxes: the pointing game, mass inside boxes, and two baselines.

A map has one number for each cell of a regular grid over the part of the picture that a backbone sees (its window).
Coordinates are fractions of the picture's width and height.

- Pointing game (Zhang et al., 2016): does the point of the largest relevance lie in a box? The point is the centre of
  the cell. If several cells share the maximum, the answer is the share of them whose centre lies in a box.
- Mass inside: the share of the map that falls into the boxes. Each cell's relevance is spread evenly over the cell.
- Area baseline: a uniformly drawn point of the window falls into the boxes with the share of the window that they
  cover. This is the exact expectation of the pointing game, and the mass inside of a constant map.
- Centre baseline: whether the centre of the picture lies in a box.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float
from PIL import Image

from vse.errors import Diverged

GROUNDED = 0.5  # share of the largest relevance from which a pixel counts as grounded; the paper gives none


class Rectangle(NamedTuple):
    """Sides as fractions of the picture; right and bottom are outside."""

    left: float
    top: float
    right: float
    bottom: float


WHOLE = Rectangle(0.0, 0.0, 1.0, 1.0)


@dataclass(frozen=True)
class Grid:
    """Rows and columns of cells that divide a window of the picture evenly."""

    rows: int
    columns: int
    window: Rectangle = WHOLE

    @classmethod
    def square(cls, regions: int, window: Rectangle = WHOLE) -> "Grid":
        """The grid of a square map. Raises ValueError if the number of regions is no square."""
        side = isqrt(regions)
        if side * side != regions:
            raise ValueError(f"{regions} regions do not form a square grid")
        return cls(side, side, window)

    @property
    def edges(self) -> tuple[Float[np.ndarray, " columns_and_one"], Float[np.ndarray, " rows_and_one"]]:
        """Sides of the columns, from left to right, and of the rows, from top to bottom."""
        left, top, right, bottom = self.window
        return np.linspace(left, right, self.columns + 1), np.linspace(top, bottom, self.rows + 1)

    @property
    def centres(self) -> tuple[Float[np.ndarray, " columns"], Float[np.ndarray, " rows"]]:
        """Centres of the columns and of the rows."""
        across, down = self.edges
        return (across[1:] + across[:-1]) / 2, (down[1:] + down[:-1]) / 2

    def hits(self, boxes: Sequence[Rectangle]) -> Bool[np.ndarray, "rows columns"]:
        """Cells whose centre lies in a box."""
        x, y = self.centres
        inside = np.zeros((self.rows, self.columns), dtype=bool)
        for box in boxes:
            inside |= ((box.top <= y) & (y < box.bottom))[:, None] & ((box.left <= x) & (x < box.right))[None, :]
        return inside

    def coverage(self, boxes: Sequence[Rectangle]) -> Float[np.ndarray, "rows columns"]:
        """Share of each cell that the union of the boxes covers, exactly."""
        across, down = self.edges
        x = np.unique(
            np.clip([*across, *(side for box in boxes for side in (box.left, box.right))], across[0], across[-1])
        )
        y = np.unique(np.clip([*down, *(side for box in boxes for side in (box.top, box.bottom))], down[0], down[-1]))
        covered = np.zeros((len(y) - 1, len(x) - 1), dtype=bool)  # pieces between all sides are inside or outside
        for box in boxes:
            covered |= ((box.top <= y[:-1]) & (y[1:] <= box.bottom))[:, None] & (
                (box.left <= x[:-1]) & (x[1:] <= box.right)
            )[None, :]
        areas = covered * np.diff(y)[:, None] * np.diff(x)[None, :]
        column = np.clip(np.searchsorted(across, x[:-1], side="right") - 1, 0, self.columns - 1)
        row = np.clip(np.searchsorted(down, y[:-1], side="right") - 1, 0, self.rows - 1)
        shares = np.zeros((self.rows, self.columns))
        np.add.at(shares, (row[:, None], column[None, :]), areas)
        return shares / (np.diff(down)[:, None] * np.diff(across)[None, :])


@dataclass(frozen=True)
class Grounding:
    """One map against the boxes of its phrase; every number is between 0 and 1.

    Args:
        pointing: Outcome of the pointing game.
        mass: Share of the map inside the boxes.
        area: What a uniform point or a constant map reaches.
        centre: Whether the centre of the picture lies in a box.
        reachable: Whether any cell's centre lies in a box, so that the pointing game can be won at this resolution.
    """

    pointing: float
    mass: float
    area: float
    centre: float
    reachable: float


def ground(relevance: Float[np.ndarray, "rows columns"], boxes: Sequence[Rectangle], grid: Grid) -> Grounding:
    """Compare a map with the boxes that it should point to.

    Args:
        relevance: The map, not negative.
        boxes: Of every object that the phrase names; only their union counts.
        grid: Where the cells lie.

    Returns:
        The pointing game, the mass inside and the baselines.

    Raises:
        Diverged: The map has a NaN.
    """
    if np.isnan(relevance).any():
        raise Diverged("a relevance map has a NaN, so the training has diverged")
    hits, covered = grid.hits(boxes), grid.coverage(boxes)
    largest = relevance == relevance.max()
    return Grounding(
        pointing=float(hits[largest].mean()),
        mass=float((relevance * covered).sum() / relevance.sum()),
        area=float(covered.mean()),
        centre=float(any(box.left <= 0.5 < box.right and box.top <= 0.5 < box.bottom for box in boxes)),
        reachable=float(hits.any()),
    )


def upsampled(
    relevance: Float[np.ndarray, "rows columns"], grid: Grid, size: tuple[int, int]
) -> Float[np.ndarray, "height width"]:
    """A map at the size of its picture: bilinear between the centres of cells, zero outside the window.

    Args:
        relevance: The map.
        grid: Where its cells lie.
        size: Width and height of the picture in pixels.
    """
    width, height = size
    left, top, right, bottom = grid.window
    x, y = (round(left * width), round(right * width)), (round(top * height), round(bottom * height))
    inside = Image.fromarray(np.asarray(relevance, dtype=np.float32))
    resized = inside.resize((max(x[1] - x[0], 1), max(y[1] - y[0], 1)), Image.Resampling.BILINEAR)
    values = np.zeros((height, width), dtype=np.float32)
    values[y[0] : y[0] + resized.height, x[0] : x[0] + resized.width] = np.asarray(resized)[
        : height - y[0], : width - x[0]
    ]
    return values


def grounded(values: Float[np.ndarray, "height width"]) -> Bool[np.ndarray, "height width"]:
    """The grounded area: pixels with at least half of the largest relevance."""
    return (values >= GROUNDED * values.max()) & (values > 0)
