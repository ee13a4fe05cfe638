"""The figure of a study that leaves pairs out: retrieval over the share of training pairs that are kept."""

from collections.abc import Mapping
from typing import Any

from vse.report.style import COLUMN, INK, REFERENCE, SOFT, SWEPT, WIDTH, add_legend, blank, rendered, styled
from vse.studies.labels import label_of
from vse.studies.study import StudyArm

_USES = {  # (the rest is used unpaired, more epochs): colour, mark, label
    (False, False): (SOFT, "o", "the rest left out"),
    (False, True): (REFERENCE, "s", "the rest left out, as many steps"),
    (True, False): (SWEPT, "^", "the rest unpaired"),
}


def pairs_figure(findings: Mapping[str, Any], arms: Mapping[str, StudyArm]) -> dict[str, bytes]:
    """{"png", "svg"}: rsum on the test split, one panel a preset, one line a use of the rest; bands are 95 % intervals.

    Empty if the study's finished arms have fewer than two shares of the pairs.
    """
    panels = _lines(findings, arms)
    shares = sorted({share for lines in panels.values() for points in lines.values() for share in points})
    if len(shares) < 2:
        return {}
    with styled():
        figure = blank(2.7, WIDTH if len(panels) > 1 else COLUMN)
        axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
        for axis, (preset, lines) in zip(axes, panels.items(), strict=True):
            _panel(axis, label_of(preset.removesuffix("_scenes")), lines, shares)
        axes[0].set_ylabel("rsum, test")
        add_legend(figure, axes[0].get_legend_handles_labels()[0], "outside upper center", labelcolor=INK)
        return rendered(figure)


def _lines(
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


def _panel(axis: Any, title: str, lines: Mapping[tuple[bool, bool], Mapping[float, Any]], shares: list[float]) -> None:
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
