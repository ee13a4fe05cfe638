"""Figures of a study: every system with its intervals, and retrieval over the share of training pairs."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import Any

from vse.adversaries.attacks import ATTACKS
from vse.evaluation.metrics import WAYS
from vse.report.style import (
    BAND,
    COLUMN,
    INK,
    MARKS,
    PALETTE,
    PAPER,
    REFERENCE,
    SOFT,
    SWEPT,
    WIDTH,
    add_legend,
    blank,
    rendered,
    styled,
)
from vse.studies.labels import label_of
from vse.studies.study import StudyArm

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


_USES = {  # (the rest is used unpaired, more epochs): colour, mark, label
    (False, False): (SOFT, "o", "the rest left out"),
    (False, True): (REFERENCE, "s", "the rest left out, as many steps"),
    (True, False): (SWEPT, "^", "the rest unpaired"),
}


def pairs_figure(findings: Mapping[str, Any], arms: Mapping[str, StudyArm]) -> dict[str, bytes]:
    """{"png", "svg"}: rsum on the test split, one panel a preset, one line a use of the rest; bands are 95 % intervals.

    Empty if the study's finished arms have fewer than two shares of the pairs.
    """
    panels = _pairs_lines(findings, arms)
    shares = sorted({share for lines in panels.values() for points in lines.values() for share in points})
    if len(shares) < 2:
        return {}
    with styled():
        figure = blank(2.7, WIDTH if len(panels) > 1 else COLUMN)
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axis, (preset, lines) in zip(axes, panels.items(), strict=True):
            _pairs_panel(axis, label_of(preset.removesuffix("_scenes")), lines, shares)
        axes[0].set_ylabel("rsum, test")
        add_legend(figure, axes[0].get_legend_handles_labels()[0], "outside upper center", labelcolor=INK)
        return rendered(figure)


def _pairs_lines(
    findings: Mapping[str, Any], arms: Mapping[str, StudyArm]
) -> dict[str, dict[tuple[bool, bool], dict[float, tuple[float, float, float]]]]:
    """Preset -> use of the rest -> share of pairs -> (mean, low, high). The run on all pairs ends every line."""
    rsums = {row["arm"]: row["rsum"] for row in findings["table"]["shared"] if row["split"] == "test"}
    shortest = min((arm.changes["train.epochs"] for arm in arms.values() if "train.epochs" in arm.changes), default=0)
    panels: dict[str, dict[tuple[bool, bool], dict[float, tuple[float, float, float]]]] = {}
    whole: dict[str, tuple[float, float, float]] = {}
    for name in (name for name in arms if name in rsums):
        arm, (mean, low, high) = arms[name], rsums[name]
        if "train.pairs" not in arm.changes:
            whole.setdefault(arm.preset, (mean, low, high))
            continue
        use = (bool(arm.changes.get("train.unpaired")), arm.changes.get("train.epochs", shortest) > shortest)
        panels.setdefault(arm.preset, {}).setdefault(use, {})[arm.changes["train.pairs"]] = (mean, low, high)
    for preset, lines in panels.items():
        for points in lines.values():
            points |= {1.0: whole[preset]} if preset in whole else {}
    return panels


def _pairs_panel(
    axis: Any, title: str, lines: Mapping[tuple[bool, bool], Mapping[float, Any]], shares: list[float]
) -> None:
    axis.set_title(title, loc="left", color=SOFT)
    axis.set_xlabel("pairs known (%)")
    axis.set_xscale("log")
    axis.set_xticks(shares, [f"{100 * share:g}" for share in shares])
    axis.minorticks_off()
    axis.grid(axis="y")
    for use, (colour, mark, label) in _USES.items():
        points = sorted(lines.get(use, {}).items())
        if not points:
            continue
        x, (mean, low, high) = [share for share, _ in points], zip(*(value for _, value in points), strict=True)
        axis.fill_between(x, low, high, color=colour, alpha=0.14, linewidth=0)
        axis.plot(x, mean, color=colour, marker=mark, markersize=4, linewidth=1.3, label=label)
