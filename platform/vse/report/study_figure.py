"""The figure of a study: every system with its intervals, plain and under attack."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

from vse.adversaries.attacks import ATTACKS
from vse.evaluation.metrics import WAYS
from vse.report.style import BAND, INK, MARKS, PALETTE, PAPER, SOFT, blank, rendered, styled
from vse.studies.labels import label_of

Row = Mapping[str, Any]
Style = tuple[str, str, str]
"""Colour, mark and label of a series."""


def _styles(labels: Mapping[str, str]) -> dict[str, Style]:
    """The hues of `style` in turn; in grey, the marks differ."""
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
    rows = findings["table"]["shared"]
    tests = sorted((row for row in rows if row["split"] == "test"), key=lambda row: row["rsum"][0])
    names = [_name(row) for row in tests]
    by_split = {
        split: {_name(row): row["rsum"] for row in rows if row["split"] == split}
        for split in _SPLITS
        if any(row["split"] == split for row in rows)
    }
    panels: list[tuple[str, list[tuple[Style, list[Sequence[float] | None]]]]] = [
        ("rsum", [(_SPLITS[split], [rsums.get(name) for name in names]) for split, rsums in by_split.items()]),
        ("R@1, test (%)", [(style, [row.get(metric) for row in tests]) for metric, style in _WAYS.items()]),
    ]
    kinds = _styles({f"attack_{kind}/r1": kind for kind in ATTACKS})
    if any(metric in row for metric in kinds for row in tests):
        attacked = [(style, [row.get(metric) for row in tests]) for metric, style in kinds.items()]
        panels.append(("R@1 under attack, test (%)", attacked))
    height = 0.6 + _HEIGHT * len(names) + _LINE * max(len(series) for _, series in panels)
    with styled():
        figure = blank(height)
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axis, (title, series) in zip(axes, panels, strict=True):
            _panel(axis, title, series)
        axes[0].set_yticks(range(len(names)), names)
        axes[0].set_ylim(-0.7, len(names) - 0.3)
        return rendered(figure)


def _name(row: Row) -> str:
    name = label_of(row["arm"])
    return name if row["alpha"] is None else f"{name}, α = {row['alpha']:g}"


def _panel(axis: Any, title: str, series: Sequence[tuple[Style, Sequence[Sequence[float] | None]]]) -> None:
    axis.set_xlabel(title)
    axis.grid(axis="y", color=BAND)
    axis.grid(axis="x")
    axis.tick_params(axis="y", length=0, labelcolor=INK)
    axis.spines["left"].set_visible(False)
    for place, ((colour, mark, label), values) in enumerate(series):
        off = (place - (len(series) - 1) / 2) * 0.16  # intervals of one line do not cover each other
        measured = [(line - off, *value) for line, value in enumerate(values) if value is not None]
        y, means, low, high = zip(*measured, strict=True) if measured else ((), (), (), ())
        axis.hlines(y, low, high, colour, lw=0.8, alpha=0.6)
        axis.plot(means, y, mark, color=colour, ms=3.2, markeredgecolor=PAPER, markeredgewidth=0.3, label=label)
    axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), labelcolor=SOFT)
