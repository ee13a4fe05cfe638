"""The picture of localised phrases: photographs with the box of each phrase and the region that ranks first."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import PIL.Image

from vse.display.png import figure_png

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe and Ito
ACROSS, WIDTH, DOTS = 3, 9.0, 100
_LONGEST = 34  # letters of a phrase


@dataclass(frozen=True, eq=False)
class Example:
    """A photograph, and for each phrase its text, its box, the first region and whether that region is right."""

    picture: PIL.Image.Image
    phrases: Sequence[tuple[str, np.ndarray, np.ndarray, bool]]


def localisation_figure(examples: Sequence[Example], recall: float) -> bytes:
    """A PNG file: dashed boxes are annotated, solid ones rank first.

    Args:
        examples: At least one, at most six are drawn.
        recall: R@1 of the whole split in percent, for the title.
    """
    import matplotlib
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    shown = examples[: 2 * ACROSS]
    rows = -(-len(shown) // ACROSS)
    with matplotlib.rc_context({"font.family": "DejaVu Sans", "font.size": 8}):
        figure = Figure(figsize=(WIDTH, 3.5 * rows + 0.4), layout="constrained")
        figure.suptitle(f"Dashed: annotated. Solid: ranked first. R@1 of all phrases: {recall:.1f} %", fontsize=9)
        axes = figure.subplots(rows, ACROSS, squeeze=False).ravel()
        for axis in axes:
            axis.set_axis_off()
        for axis, example in zip(axes, shown, strict=False):
            picture = example.picture
            axis.imshow(picture, extent=(0, picture.width, picture.height, 0), interpolation="bilinear")
            size = np.array([picture.width, picture.height])
            for number, (text, box, first, right) in enumerate(example.phrases[: len(COLOURS)]):
                for sides, style, wide in ((box, (0, (3, 2)), 1.6), (first, "solid", 2.0)):
                    corner, extent = sides[:2] * size, (sides[2:] - sides[:2]) * size
                    for colour, more in (("white", 1.4), (COLOURS[number], 0.0)):
                        frame = Rectangle(tuple(corner), *extent, fill=False, lw=wide + more, ls=style, ec=colour)
                        axis.add_patch(frame)
                mark = "✓" if right else "✗"
                shortened = text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
                place = (0.0, -0.03 - 0.065 * number)
                axis.text(*place, f"{mark} {shortened}", color=COLOURS[number], transform=axis.transAxes, va="top")
        return figure_png(figure, DOTS)
