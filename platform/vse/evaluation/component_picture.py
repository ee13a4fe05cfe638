"""The picture of components by level: vectors in two dimensions by t-SNE (UniVSE, supplement B.5)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from vse.display.png import figure_png

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F3C8D", "#8C6D31")  # first: Okabe, Ito
OTHER = "#B0B5BD"
INK = "#222222"
FEWEST = 6  # points of a panel
PERPLEXITY = 30.0
WIDTH, DOTS = 13.5, 110  # inches, and pixels of an inch


@dataclass(frozen=True, eq=False)
class Level:
    """Components of a level for the picture, most frequent first.

    Args:
        title: The level.
        texts: Words of each component.
        kinds: What the noun of each is a kind of, for its colour; "" for none of those shown.
        vectors: Unit vectors.
    """

    title: str
    texts: Sequence[str]
    kinds: Sequence[str]
    vectors: Float[np.ndarray, "components dim"]


def in_two_dimensions(vectors: Float[np.ndarray, "points dim"]) -> Float[np.ndarray, "points 2"]:
    """Points of t-SNE (van der Maaten and Hinton, 2008), the same for the same vectors.

    Distances are Euclidean, which for unit vectors have the order of cosines. The perplexity is 30, or a third of the
    points if these are few. The gradient is exact, and the points begin at their principal components.
    """
    from sklearn.manifold import TSNE  # takes a second

    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    tsne = TSNE(perplexity=perplexity, init="pca", method="exact", random_state=0)
    return tsne.fit_transform(np.asarray(vectors, dtype=np.float64))


def component_figure(levels: Sequence[Level]) -> bytes:
    """A PNG file with a panel for each level; labels are those of frequent components that have room.

    All levels together have no more kinds than there are colours.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    names = sorted({kind for level in levels for kind in level.kinds if kind})
    colours = dict(zip(names, COLOURS, strict=False)) | {"": OTHER}
    style: dict[Any, Any] = {"font.family": "DejaVu Sans", "font.size": 7, "text.parse_math": False}
    with matplotlib.rc_context(style):  # words may hold dollar signs
        figure = Figure(figsize=(WIDTH * len(levels) / 3, 5.2), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(1, len(levels), squeeze=False)[0]
        for axis, level in zip(axes, levels, strict=True):
            points = in_two_dimensions(level.vectors)
            axis.scatter(*points.T, s=14, c=[colours[kind] for kind in level.kinds], linewidths=0)
            axis.set_title(level.title, fontsize=9, fontweight="bold", color=INK, loc="left")
            axis.set_xticks([])
            axis.set_yticks([])
            axis.margins(0.08)
        shown = [Line2D([], [], ls="", marker="o", ms=5, color=colours[name], label=name) for name in names]
        shown.append(Line2D([], [], ls="", marker="o", ms=5, color=OTHER, label="other"))
        figure.legend(handles=shown, loc="outside lower center", ncols=len(shown), frameon=False, fontsize=8)
        figure.canvas.draw()  # fixes the places of points
        for axis, level in zip(axes, levels, strict=True):
            _label(axis, level.texts)
        return figure_png(figure, DOTS)


def _label(axis: Any, texts: Sequence[str]) -> None:
    """Write each text at its point if it has room inside the axis, next to the texts written before."""
    frame, boxes = axis.get_window_extent(), []
    for text, point in zip(texts, axis.collections[0].get_offsets().tolist(), strict=True):
        label = axis.annotate(text, point, xytext=(2, 2), textcoords="offset points", fontsize=6, color=INK)
        box = label.get_window_extent().padded(1)
        inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and box.y1 <= frame.y1
        if not inside or any(box.overlaps(other) for other in boxes):
            label.remove()
        else:
            boxes.append(box)
