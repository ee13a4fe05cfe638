"""The figure of a sweep of α: retrieval over α, plain and under each attack."""

import math
from collections.abc import Sequence
from typing import Any

from vse.adversaries.attacks import ATTACKS, of_paper
from vse.display.counts import count
from vse.evaluation.intervals import Interval, interval
from vse.evaluation.metrics import WAYS
from vse.report.curve import AlphaResults, Arm
from vse.report.style import AXIS, INK, PAPER, REFERENCE, SOFT, SWEPT, add_legend, blank, rendered, styled

HALO = {"facecolor": PAPER, "edgecolor": "none", "alpha": 0.75, "pad": 0.8}  # keeps text legible over lines
BAND_SEEDS = 3  # fewer seeds draw no band: an interval over two seeds is thirteen times as wide as their distance
ROOM = 0.12  # share of a panel's height that the number at a mark takes
_PLAIN = tuple((sign, f"{way}/r1") for way, sign in WAYS.items())


def alpha_figure(results: AlphaResults, split: str = "test") -> dict[str, bytes]:
    """{"png": ..., "svg": ...}: R@1 over α as in Fig. 5 of Wu et al. (CVPR 2019), plain and under each attack.

    Lines are means over seeds, bands their 95 % intervals from three seeds on, thin lines single seeds. The reference
    model has no α and is a horizontal line with its band. The chosen α is marked. An attack without adversaries has no
    panel.
    """
    attacks = drawn_attacks(results, split)
    with styled():
        figure = blank(2.7)
        widths = (2.12, len(attacks)) if attacks else (1,)
        parts: Any = figure.subfigures(1, len(widths), width_ratios=widths, wspace=0.03, squeeze=False)
        _row(parts[0][0], results, split, _PLAIN, "a   Plain retrieval")
        if attacks:
            separator = ",\n     " if len(attacks) < len(of_paper()) else ", "  # a narrow part breaks its title
            title = f"b   {WAYS['i2t'].capitalize()}{separator}adversarial captions in the pool"
            _row(parts[0][1], results, split, attacks, title)
        _legend(figure, results)
        return rendered(figure)


def drawn_attacks(results: AlphaResults, split: str) -> list[tuple[str, str]]:
    """The attacks that have a panel, each with its metric: attacks that were measured at every α."""
    named = [(f"{name} attack", f"attack_{name}/r1") for name in ATTACKS]
    return [each for each in named if all(f"{split}/{each[1]}" in point for point in results.points)]


def _row(part: Any, results: AlphaResults, split: str, panels: Sequence[tuple[str, str]], title: str) -> None:
    from matplotlib.ticker import MaxNLocator

    part.suptitle(title, x=0.012, ha="left", fontsize=8.5, fontweight="bold")
    axes = part.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    # limits hold every number of every seed; bands of three seeds may leave them
    numbers = [v for _, metric in panels for point in results.points for v in point[f"{split}/{metric}"]]
    if results.reference is not None:
        numbers += [v for _, metric in panels for v in results.reference.metrics.get(f"{split}/{metric}", [])]
    low, high = min(numbers), max(numbers)
    margin = ROOM * max(high - low, 1.0)
    axes[0].set_ylim(max(-0.3 * margin, low - margin), high + margin)
    axes[0].set_ylabel("R@1 (%)")
    first, last = results.alphas[0], results.alphas[-1]
    room = 0.025 * max(last - first, 0.1)
    for axis, (name, metric) in zip(axes, panels, strict=True):
        axis.grid(axis="y")
        axis.set_xlim(first - room, last + room)
        axis.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
        axis.xaxis.set_major_formatter("{x:g}")
        axis.set_title(name, loc="left", color=SOFT, pad=5)
        axis.set_xlabel("α")
        _panel(axis, results, f"{split}/{metric}")


def _panel(axis: Any, results: AlphaResults, metric: str) -> None:
    if results.reference is not None and metric in results.reference.metrics:
        _level(axis, results.reference, metric)
    intervals = results.series(metric)
    means = [each.mean for each in intervals]
    if all(_has_band(each) for each in intervals):
        low, high = [e.mean - e.half for e in intervals], [e.mean + e.half for e in intervals]
        axis.fill_between(results.alphas, low, high, color=SWEPT, alpha=0.16, linewidth=0)
    for seed in range(len(results.seeds)):
        values = [point[metric][seed] for point in results.points]
        axis.plot(results.alphas, values, color=SWEPT, linewidth=0.6, alpha=0.35)
    axis.plot(results.alphas, means, color=SWEPT, linewidth=1.6, solid_capstyle="round")
    axis.axvline(results.chosen, color=INK, linewidth=0.9, linestyle=(0, (1, 2)))
    chosen = means[results.alphas.index(results.chosen)]
    axis.plot([results.chosen], [chosen], "o", color=SWEPT, markersize=4.5, markeredgecolor=PAPER, markeredgewidth=0.8)
    _value(axis, results, means, chosen)


def _has_band(level: Interval) -> bool:
    return level.count >= BAND_SEEDS and not math.isnan(level.half)


def _value(axis: Any, results: AlphaResults, means: Sequence[float], chosen: float) -> None:
    """The number at the chosen α, on the side that the curve leaves free if the axes have room there."""
    here = results.alphas.index(results.chosen)
    rising = means[min(len(means) - 1, here + 2)] >= means[max(0, here - 2)]
    at_right = results.chosen > 0.8 * results.alphas[-1]
    low, high = axis.get_ylim()
    height = (chosen - low) / (high - low)
    below = height > 1 - ROOM or (height > ROOM and rising != at_right)
    axis.annotate(
        f"{chosen:.1f}",
        (results.chosen, chosen),
        xytext=(-4 if at_right else 4, -4 if below else 4),
        textcoords="offset points",
        ha="right" if at_right else "left",
        va="top" if below else "bottom",
        color=SWEPT,
        fontweight="bold",
        bbox=HALO,
    )


def _level(axis: Any, arm: Arm, metric: str) -> None:
    """The reference model, which has no α."""
    level = interval(arm.metrics[metric])
    if _has_band(level):
        axis.axhspan(level.mean - level.half, level.mean + level.half, color=REFERENCE, alpha=0.13, linewidth=0)
    left, right = axis.get_xlim()
    axis.plot([left, right], [level.mean, level.mean], color=REFERENCE, linewidth=1.3, linestyle=(0, (5, 2)))
    axis.annotate(
        f"{level.mean:.1f}",
        (left, level.mean),
        xytext=(2, 2),
        textcoords="offset points",
        color=REFERENCE,
        fontweight="bold",
        bbox=HALO,
        zorder=4,
    )


def _legend(figure: Any, results: AlphaResults) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    several, seeds = len(results.seeds) > 1, count(len(results.seeds), "seed")
    label = f"{results.label}, {'mean of ' if several else ''}{seeds}"
    handles: list[Any] = [Line2D([], [], color=SWEPT, linewidth=1.6, label=label)]
    if several:
        handles.append(Line2D([], [], color=SWEPT, linewidth=0.7, alpha=0.5, label="single seed"))
    if results.reference is not None:
        label = f"{results.reference.label} (no α)"
        handles.append(Line2D([], [], color=REFERENCE, linewidth=1.3, linestyle=(0, (5, 2)), label=label))
    if len(results.seeds) >= BAND_SEEDS:
        handles.append(Patch(facecolor=AXIS, alpha=0.35, label="95 % interval over seeds"))
    label = f"chosen α = {results.chosen:g}"
    handles.append(Line2D([], [], color=INK, linewidth=0.9, linestyle=(0, (1, 2)), label=label))
    add_legend(figure, handles, handlelength=2.4)
