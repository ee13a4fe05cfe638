"""The figure of a comparison: differences to the first system with their intervals, rsum above, recalls below."""

from collections.abc import Sequence
from typing import Any

from vse.report.comparison import Comparison, Difference, Line
from vse.report.style import BAND, INK, MARKS, PALETTE, PAPER, SOFT, add_legend, blank, rendered, styled

_STYLES = tuple(zip(PALETTE, MARKS, strict=True))
_ROW, _MARK = 0.16, 0.07  # inches of a row, and of every further mark in it


def comparison_figure(comparison: Comparison, split: str) -> dict[str, bytes]:
    """{"png", "svg"}: a row for each metric, with a mark for each system but the first, which is the line at zero.

    Of attacks, R@1 and pair accuracy are shown. The panels have different scales, with zero in the same place.
    """
    shown = [line for line in comparison.lines[split] if line.metric.main]
    sums, recalls = ([line for line in shown if bool(line.metric.terms) == is_sum] for is_sum in (True, False))
    number = len(comparison.others)
    with styled():
        figure = blank(1.1 + (_ROW + _MARK * (number - 1)) * len(shown))
        axes: Any = figure.subplots(2, 1, height_ratios=[len(sums) + 0.4, len(recalls)])
        for axis, lines in zip(axes, (sums, recalls), strict=True):
            _panel(axis, lines, number)
        for axis, limits in zip(axes, _limits([sums, recalls]), strict=True):
            axis.set_xlim(*limits)
        first = comparison.systems[0].label
        axes[1].set_xlabel(f"{split} split: difference to {first}\n(percentage points; rsum has its own scale)")
        _legend(figure, comparison)
        return rendered(figure)


def _panel(axis: Any, lines: Sequence[Line], number: int) -> None:
    axis.axvline(0, color=INK, linewidth=0.9)
    axis.grid(axis="x")
    axis.set_yticks(range(len(lines)), [line.metric.label for line in lines])
    axis.set_ylim(len(lines) - 0.5, -0.5)
    axis.tick_params(axis="y", length=0, labelcolor=INK)
    axis.spines["left"].set_visible(False)
    for row in range(0, len(lines), 2):  # bands hold the marks of one metric together
        axis.axhspan(row - 0.5, row + 0.5, color=BAND, linewidth=0, zorder=0)
    spread = min(0.7, 0.32 * (number - 1))
    for place in range(number):
        colour, mark = _STYLES[place % len(_STYLES)]
        off = spread * (place / (number - 1) - 0.5) if number > 1 else 0.0
        for row, line in enumerate(lines):
            difference = line.differences[place]
            axis.hlines(row + off, difference.low, difference.high, colour, lw=1.2, alpha=0.75)
            look = {"markersize": 3.8, "markeredgewidth": 0.9, "markerfacecolor": colour if difference.clear else PAPER}
            axis.plot([difference.estimate], [row + off], mark, color=colour, **look)


def _limits(panels: Sequence[Sequence[Line]]) -> list[tuple[float, float]]:
    """Ends of every panel's axis, such that zero divides all of them in the same ratio."""
    ends = []
    for lines in panels:
        every: list[Difference] = [each for line in lines for each in line.differences]
        low, high = min(0.0, *(each.low for each in every)), max(0.0, *(each.high for each in every))
        room = 0.06 * (high - low) or 1.0
        ends.append((low - room, high + room))
    below, above = (max(abs(pair[side]) / (pair[1] - pair[0]) for pair in ends) for side in (0, 1))
    return [(-below * (high - low), above * (high - low)) for low, high in ends]


def _legend(figure: Any, comparison: Comparison) -> None:
    from matplotlib.lines import Line2D

    handles: list[Any] = []
    for place, system in enumerate(comparison.others):
        colour, mark = _STYLES[place % len(_STYLES)]
        handles.append(Line2D([], [], color=colour, marker=mark, markersize=3.8, linewidth=1.2, label=system.label))
    label = f"{comparison.systems[0].label} (zero)"
    handles.append(Line2D([], [], color=INK, linewidth=0.9, label=label))
    empty = {"marker": "o", "color": SOFT, "markersize": 3.8, "markerfacecolor": PAPER, "linewidth": 0}
    handles.append(Line2D([], [], **empty, label="interval includes zero"))
    add_legend(figure, handles, "outside upper left")
