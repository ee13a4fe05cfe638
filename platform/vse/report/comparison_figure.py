"""The figure of a comparison: differences to the first system with their intervals, rsum above, recalls below."""

from collections.abc import Sequence
from typing import Any

from vse.report.comparison import Comparison, Difference, Line
from vse.report.figures import INK, REFERENCE, SOFT, STYLE, SWEPT, rendered

# the hues and marks of `study_figure`: told apart in grey by their marks
_STYLES = ((SWEPT, "o"), (REFERENCE, "s"), ("#009E73", "^"), ("#CC79A7", "D"), ("#E69F00", "v"), ("#56B4E9", "P"))
_WAYS = {"i2t": "image → sentence", "t2i": "sentence → image"}
_METRICS = {"r1": "R@1", "r5": "R@5", "r10": "R@10", "pair_accuracy": "pairs"}
_ROW, _MARK = 0.2, 0.09  # inches of a row, and of every further mark in it


def comparison_figure(comparison: Comparison, split: str) -> dict[str, bytes]:
    """{"png", "svg"}: one row a metric, one mark a system but the first, which is the line at zero. Of attacks, R@1 and
    pair accuracy are shown. Zero is at the same place in both panels, whose scales differ."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    shown = [line for line in comparison.lines[split] if _is_shown(line.metric)]
    sums, recalls = ([line for line in shown if (line.metric == "rsum") == is_sum] for is_sum in (True, False))
    number = len(comparison.others)
    with matplotlib.rc_context(STYLE):
        height = (_ROW + _MARK * (number - 1)) * len(shown)
        figure = Figure(figsize=(9.6, 1.4 + height), layout="constrained")
        FigureCanvasAgg(figure)
        axes: Any = figure.subplots(2, 1, height_ratios=[len(sums) + 0.4, len(recalls)])
        for axis, lines in zip(axes, (sums, recalls), strict=True):
            _panel(axis, lines, number)
        for axis, limits in zip(axes, _limits([sums, recalls]), strict=True):
            axis.set_xlim(*limits)
        first = comparison.systems[0].label
        axes[1].set_xlabel(f"{split} split: difference to {first} in percentage points; rsum has its own scale")
        _legend(figure, comparison)
        return {kind: rendered(figure, kind) for kind in ("png", "svg")}


def _is_shown(metric: str) -> bool:
    task, _, name = metric.rpartition("/")
    return name != "rsum3" and (not task.startswith("attack_") or name in ("r1", "pair_accuracy"))


def name_of(metric: str) -> str:
    """A metric in words: `attack_object/disjoint/r1` is the object attack, disjoint words, R@1."""
    task, _, name = metric.rpartition("/")
    kind, _, words = task.partition("/")
    if kind in _WAYS:
        return f"{_WAYS[kind]}, {_METRICS[name]}"
    if not task:
        return metric
    attack = kind.removeprefix("attack_").replace("_", " ")
    return ", ".join(filter(None, (f"{attack} attack", f"{words} words" * bool(words), _METRICS.get(name, name))))


def _panel(axis: Any, lines: Sequence[Line], number: int) -> None:
    axis.axvline(0, color=INK, linewidth=0.9)
    axis.grid(axis="x", color="#E5E7EB", linewidth=0.8)
    axis.set_axisbelow(True)
    axis.set_yticks(range(len(lines)), [name_of(line.metric) for line in lines])
    axis.set_ylim(len(lines) - 0.5, -0.5)
    axis.tick_params(axis="y", length=0, labelcolor=INK)
    axis.spines["left"].set_visible(False)
    for row in range(0, len(lines), 2):  # bands hold the marks of one metric together
        axis.axhspan(row - 0.5, row + 0.5, color="#F3F4F6", linewidth=0, zorder=0)
    spread = min(0.7, 0.32 * (number - 1))
    for place in range(number):
        colour, mark = _STYLES[place % len(_STYLES)]
        off = spread * (place / (number - 1) - 0.5) if number > 1 else 0.0
        for row, line in enumerate(lines):
            found = line.differences[place]
            axis.hlines(row + off, found.low, found.high, colour, lw=1.6, alpha=0.75)
            face = colour if found.clear else "white"
            axis.plot(
                [found.estimate],
                [row + off],
                mark,
                color=colour,
                markersize=5,
                markerfacecolor=face,
                markeredgewidth=1.2,
            )


def _limits(panels: Sequence[Sequence[Line]]) -> list[tuple[float, float]]:
    """Ends of every panel's axis, such that zero divides all of them in the same ratio."""
    ends = []
    for lines in panels:
        found: list[Difference] = [each for line in lines for each in line.differences]
        low, high = min(0.0, *(each.low for each in found)), max(0.0, *(each.high for each in found))
        room = 0.06 * (high - low) or 1.0
        ends.append((low - room, high + room))
    below, above = (max(abs(pair[side]) / (pair[1] - pair[0]) for pair in ends) for side in (0, 1))
    return [(-below * (high - low), above * (high - low)) for low, high in ends]


def _legend(figure: Any, comparison: Comparison) -> None:
    from matplotlib.lines import Line2D

    handles: list[Any] = []
    for place, system in enumerate(comparison.others):
        colour, mark = _STYLES[place % len(_STYLES)]
        handles.append(Line2D([], [], color=colour, marker=mark, linewidth=1.6, label=system.label))
    label = f"{comparison.systems[0].label} (zero)"
    handles.append(Line2D([], [], color=INK, linewidth=0.9, label=label))
    empty = {"marker": "o", "color": SOFT, "markerfacecolor": "white", "linewidth": 0}
    handles.append(Line2D([], [], **empty, label="interval holds zero"))
    figure.legend(handles=handles, loc="outside upper left", ncols=min(4, len(handles)), frameon=False)
