"""The figure of a study: every system with its intervals, plain and under attack."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

from vse.adversaries.univse.attacks import ATTACKS
from vse.report.metric_names import WAYS
from vse.report.style import GRID, INK, MARKS, PALETTE, SOFT, STYLE, WIDTH, rendered
from vse.studies.labels import label_of

Row = Mapping[str, Any]
Style = tuple[str, str, str]
"""Colour, mark and label of a series."""


def _styles(labels: Mapping[str, str]) -> dict[str, Style]:
    """The hues of `style` in turn, told apart in grey by their marks."""
    looks = zip(cycle(PALETTE), cycle(MARKS), strict=True)
    return {name: (*look, label) for (name, label), look in zip(labels.items(), looks, strict=False)}


_SPLITS = _styles(
    {
        "test": "test",
        "shifted": "co-occurrences broken",
        "drawing": "second drawing",
        "wording": "second wording",
    }
)
_WAYS = _styles({f"{way}/r1": sign for way, sign in WAYS.items()})
_HEIGHT, _LINE = 0.15, 0.16  # inches of a row, and of a line of the legends


def study_figure(findings: Mapping[str, Any]) -> dict[str, bytes]:
    """{"png", "svg"}: one line an arm (and α), the best rsum on top; marks are means, lines 95 % intervals.

    Three panels: rsum on every split, R@1 both ways, and R@1 under each attack (words that training
    negatives may have had), the last two on the test split.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = findings["table"]["shared"]
    tests = sorted((row for row in rows if row["split"] == "test"), key=lambda row: row["rsum"][0])
    names = [_name(row) for row in tests]
    by_split = {
        split: {_name(row): row["rsum"] for row in rows if row["split"] == split}
        for split in _SPLITS
        if any(row["split"] == split for row in rows)
    }
    panels: list[tuple[str, list[tuple[Style, list[Sequence[float] | None]]]]] = [
        ("rsum", [(_SPLITS[split], [found.get(name) for name in names]) for split, found in by_split.items()]),
        ("R@1, test (%)", [(style, [row.get(metric) for row in tests]) for metric, style in _WAYS.items()]),
    ]
    kinds = _styles({f"attack_{kind}/r1": kind for kind in ATTACKS})
    if any(metric in row for metric in kinds for row in tests):
        attacked = [(style, [row.get(metric) for row in tests]) for metric, style in kinds.items()]
        panels.append(("R@1 under attack, test (%)", attacked))
    height = 0.6 + _HEIGHT * len(names) + _LINE * max(len(series) for _, series in panels)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axis, (title, series) in zip(axes, panels, strict=True):
            _panel(axis, title, series)
        axes[0].set_yticks(range(len(names)), names)
        axes[0].set_ylim(-0.7, len(names) - 0.3)
        return {kind: rendered(figure, kind) for kind in ("png", "svg")}


def _name(row: Row) -> str:
    name = label_of(row["arm"])
    return name if row["alpha"] is None else f"{name}, α = {row['alpha']:g}"


def _panel(axis: Any, title: str, series: Sequence[tuple[Style, Sequence[Sequence[float] | None]]]) -> None:
    axis.set_xlabel(title)
    axis.grid(axis="y", color="#EEF0F3", linewidth=0.6)
    axis.grid(axis="x", color=GRID, linewidth=0.6)
    axis.set_axisbelow(True)
    axis.tick_params(axis="y", length=0, labelcolor=INK)
    axis.spines["left"].set_visible(False)
    for place, ((colour, mark, label), values) in enumerate(series):
        off = (place - (len(series) - 1) / 2) * 0.16  # intervals of one line do not cover each other
        known = [(line - off, value) for line, value in enumerate(values) if value is not None]
        axis.hlines(
            [y for y, _ in known], [v[1] for _, v in known], [v[2] for _, v in known], colour, lw=0.8, alpha=0.6
        )
        axis.plot(
            [v[0] for _, v in known],
            [y for y, _ in known],
            mark,
            color=colour,
            markersize=3.2,
            markeredgecolor="white",
            markeredgewidth=0.3,
            label=label,
        )
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False, labelcolor=SOFT)
