"""The figure of a sweep of α: retrieval over α, plain and under each attack."""

import math
from collections.abc import Sequence
from typing import Any

from vse.adversaries.univse.attacks import ATTACKS, OF_PAPER
from vse.evaluation.intervals import Interval, interval
from vse.report.curve import AlphaResults, Arm
from vse.report.metric_names import WAYS
from vse.report.style import GRID, INK, REFERENCE, SOFT, STYLE, SWEPT, WIDTH, legend_columns, rendered

HALO = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.8}  # keeps text legible, and text in SVG
BAND_SEEDS = 3  # intervals over two seeds are thirteen times as wide as these are apart: a band would fill its panel
ROOM = 0.12  # share of a panel's height that a number beside a mark takes
_PLAIN = tuple((sign, f"{way}/r1") for way, sign in WAYS.items())


def alpha_figure(results: AlphaResults, split: str = "test") -> dict[str, bytes]:
    """{"png": ..., "svg": ...}: R@1 over α as in Fig. 5 of Wu et al. (CVPR 2019), plain and under each attack.

    Lines are means over seeds, bands their 95 % intervals from three seeds on, thin lines single seeds; the reference
    model has no α and is a horizontal line with its band. The chosen α is marked. An attack without adversaries has no
    panel.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    named = [(f"{name} attack", f"attack_{name}/r1") for name in ATTACKS]
    attacks = [each for each in named if all(f"{split}/{each[1]}" in point for point in results.points)]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 2.7), layout="constrained")
        FigureCanvasAgg(figure)
        widths = (2.12, len(attacks)) if attacks else (1,)
        parts: Any = figure.subfigures(1, len(widths), width_ratios=widths, wspace=0.03, squeeze=False)
        _row(parts[0][0], results, split, _PLAIN, "a   Plain retrieval")
        if attacks:
            added = ",\n     " if len(attacks) < len(OF_PAPER) else ", "  # a narrow part breaks its title
            title = f"b   {WAYS['i2t'].capitalize()}{added}adversarial captions in the pool"
            _row(parts[0][1], results, split, attacks, title)
        _legend(figure, results)
        return {kind: rendered(figure, kind) for kind in ("png", "svg")}


def _row(part: Any, results: AlphaResults, split: str, panels: Sequence[tuple[str, str]], title: str) -> None:
    part.suptitle(title, x=0.012, ha="left", fontsize=8.5, fontweight="bold")
    axes = part.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    shown = [value for _, metric in panels for value in _values(results, f"{split}/{metric}")]
    low, high = min(shown), max(shown)
    margin = ROOM * max(high - low, 1.0)
    axes[0].set_ylim(max(-0.3 * margin, low - margin), high + margin)  # shared by all; numbers are placed within it
    for place, (axis, (name, metric)) in enumerate(zip(axes, panels, strict=True)):
        _panel(axis, results, f"{split}/{metric}")
        axis.set_title(name, loc="left", color=SOFT, pad=5)
        axis.set_xlabel("α")
        if place == 0:
            axis.set_ylabel("R@1 (%)")


def _values(results: AlphaResults, metric: str) -> list[float]:
    """Every number of every seed: the axis is made for these, and bands of three seeds may leave it."""
    found = [value for point in results.points for value in point[metric]]
    return found + (results.reference.metrics.get(metric, []) if results.reference is not None else [])


def _panel(axis: Any, results: AlphaResults, metric: str) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.grid(axis="y", color=GRID, linewidth=0.6)
    axis.set_axisbelow(True)
    first, last = results.alphas[0], results.alphas[-1]
    room = 0.025 * max(last - first, 0.1)
    axis.set_xlim(first - room, last + room)
    axis.xaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    axis.xaxis.set_major_formatter("{x:g}")
    if results.reference is not None and metric in results.reference.metrics:
        _level(axis, results.reference, metric)
    found = results.series(metric)
    means = [each.mean for each in found]
    if all(_has_band(each) for each in found):
        low, high = [e.mean - e.half for e in found], [e.mean + e.half for e in found]
        axis.fill_between(results.alphas, low, high, color=SWEPT, alpha=0.16, linewidth=0)
    for seed in range(len(results.seeds)):
        values = [point[metric][seed] for point in results.points]
        axis.plot(results.alphas, values, color=SWEPT, linewidth=0.6, alpha=0.35)
    axis.plot(results.alphas, means, color=SWEPT, linewidth=1.6, solid_capstyle="round")
    axis.axvline(results.chosen, color=INK, linewidth=0.9, linestyle=(0, (1, 2)))
    chosen = means[results.alphas.index(results.chosen)]
    axis.plot(
        [results.chosen], [chosen], "o", color=SWEPT, markersize=4.5, markeredgecolor="white", markeredgewidth=0.8
    )
    _value(axis, results, means, chosen)


def _has_band(found: Interval) -> bool:
    return found.count >= BAND_SEEDS and not math.isnan(found.half)


def _value(axis: Any, results: AlphaResults, means: Sequence[float], chosen: float) -> None:
    """The number at the chosen α, on the side that the curve leaves free if there is room for it in the axes."""
    here = results.alphas.index(results.chosen)
    around = means[max(0, here - 2)], means[min(len(means) - 1, here + 2)]
    rising, at_right = around[1] >= around[0], results.chosen > 0.8 * results.alphas[-1]
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

    handles: list[Any] = [
        Line2D([], [], color=SWEPT, linewidth=1.6, label=f"{results.label}, mean of {len(results.seeds)} seeds"),
        Line2D([], [], color=SWEPT, linewidth=0.7, alpha=0.5, label="single seed"),
    ]
    if results.reference is not None:
        label = f"{results.reference.label} (no α)"
        handles.append(Line2D([], [], color=REFERENCE, linewidth=1.3, linestyle=(0, (5, 2)), label=label))
    if len(results.seeds) >= BAND_SEEDS:
        handles.append(Patch(facecolor="#9CA3AF", alpha=0.35, label="95 % interval over seeds"))
    mark = Line2D([], [], color=INK, linewidth=0.9, linestyle=(0, (1, 2)), label=f"chosen α = {results.chosen:g}")
    handles.append(mark)
    columns = legend_columns([str(handle.get_label()) for handle in handles])
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, frameon=False, handlelength=2.4)
