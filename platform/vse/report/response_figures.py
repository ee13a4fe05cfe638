"""Figures of a sweep of trainings: response curves, interactions, importance."""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from vse.evaluation.intervals import interval
from vse.report.importance import Importance
from vse.report.response import OBJECTIVE, PAIRS, RSUM, Point, ResponseResults, front, is_numeric, lines_of, sortable
from vse.report.style import (
    AXIS,
    COLUMN,
    INK,
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

DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (4, 1, 1, 1)), (0, (7, 2)), (0, (2, 2)))
MOST_LINES = len(PALETTE)  # a panel with more lines is illegible: it has points only
MOST_PAIRS = 6
MOST_COLUMNS = 4  # panels in a row
LOGARITHMIC = 20.0  # ratio of the ends of a range from which its axis is logarithmic
_KEY_WIDTH = 22  # letters of a key below a panel
_PAIRS = "validation pairs (%)"
OBJECTIVES = {
    "rsum": "validation rsum",
    "pairs": _PAIRS,
    "both": "validation, both (%)",
    "front": "validation, mean of both (%)",
}


def response_figure(results: ResponseResults, band: float = 0.0) -> dict[str, bytes]:
    """One panel for each searched key and metric: the objective above, rsum on test below if it was measured.

    A line joins points that differ in that key alone, with 95 % intervals over seeds if there are several. Other points
    are dots. A dotted line marks the preset's value.

    Args:
        results: The sweep.
        band: Half width of the equivalence band of a claim, drawn around the mean of all points on test. 0: none.

    Returns:
        {"png": ..., "svg": ...}
    """
    rows = [m for m in (OBJECTIVE, "test/rsum") if any(m in p.metrics for p in results.points)]
    columns = min(MOST_COLUMNS, max(1, len(results.keys)))
    blocks = max(1, math.ceil(len(results.keys) / columns))
    with styled():
        figure = blank(1.7 * len(rows) * blocks + 0.5, WIDTH if columns > 1 else COLUMN)
        axes = figure.subplots(blocks * len(rows), columns, squeeze=False, sharey="row")
        labels: dict[str, int] = {}
        for place, key in enumerate(results.keys):
            block, column = divmod(place, columns)
            for row, metric in enumerate(rows):
                axis = axes[block * len(rows) + row][column]
                _response(axis, results, key, metric, labels, band if metric == "test/rsum" else 0.0)
                if column == 0:
                    numbers = [v for p in results.points for v in p.metrics.get(metric, [])]  # of every seed
                    margin = 0.12 * max(max(numbers) - min(numbers), 1.0)
                    axis.set_ylim(min(numbers) - margin, max(numbers) + margin)
                    axis.set_ylabel("test rsum" if metric != OBJECTIVE else OBJECTIVES[results.objective])
                if row == len(rows) - 1:
                    axis.set_xlabel(key.replace(".", ".\n") if len(key) > _KEY_WIDTH else key)
        for axis in axes.flat[len(rows) * columns * (blocks - 1) :] if results.keys else ():
            axis.set_visible(axis.has_data())
        _key(figure, results, labels, band)
        return rendered(figure)


def _response(axis: Any, results: ResponseResults, key: str, metric: str, labels: dict[str, int], band: float) -> None:
    axis.grid(axis="y")
    place = _scaled(axis, results, key)
    lines = lines_of(results, key)
    measured = [p for p in results.points if metric in p.metrics]
    if band and measured:
        mean = sum(interval(p.metrics[metric]).mean for p in measured) / len(measured)
        axis.axhspan(mean - band, mean + band, color=AXIS, alpha=0.25, linewidth=0)
    loose = [p for p in _loose(results, key) if metric in p.metrics]
    for stopped, colour, strength in ((False, SWEPT, 0.55), (True, SOFT, 0.35)):
        dots = [p for p in loose if p.stopped == stopped]
        x, y = [place(p.values[key]) for p in dots], [interval(p.metrics[metric]).mean for p in dots]
        axis.plot(x, y, "o", color=colour, markersize=3.4, alpha=strength, markeredgewidth=0)
    for name, points in lines if len(lines) <= MOST_LINES else ():
        style = labels.setdefault(name, len(labels)) % MOST_LINES
        _line(axis, [p for p in points if metric in p.metrics], key, metric, place, style)
    if key in results.base:
        axis.axvline(place(results.base[key]), color=INK, linewidth=0.9, linestyle=(0, (1, 2)))


def _loose(results: ResponseResults, key: str) -> list[Point]:
    """Points that are dots in the panel of a key: those on none of its lines.

    If the key has lines, points on a line of another key are left out at the preset's value of this key, since they
    would overlap. They stay if they have keys that no point on the lines has, as below an alternative, because no other
    mark shows them.
    """
    own = _joined(results, key)
    others = {id(p) for each in results.keys for p in _joined(results, each)} if own else set[int]()
    on_lines, kinds = {id(p) for p in own}, {frozenset(p.values) for p in own}
    return [
        p
        for p in results.points
        if key in p.values
        and id(p) not in on_lines
        and not (id(p) in others and p.values[key] == results.base.get(key) and frozenset(p.values) in kinds)
    ]


def _joined(results: ResponseResults, key: str) -> list[Point]:
    """Points on the lines of a key, if its lines are drawn."""
    lines = lines_of(results, key)
    return [p for _, points in lines for p in points] if len(lines) <= MOST_LINES else []


def _line(axis: Any, points: Sequence[Point], key: str, metric: str, place: Any, style: int) -> None:
    colour, intervals = PALETTE[style], [interval(p.metrics[metric]) for p in points]
    x, means = [place(p.values[key]) for p in points], [each.mean for each in intervals]
    if intervals and not any(math.isnan(each.half) for each in intervals):
        halves = [each.half for each in intervals]
        axis.errorbar(x, means, yerr=halves, fmt="none", color=colour, elinewidth=0.8, capsize=2, alpha=0.7)
    seeds = sorted({seed for point in points for seed in point.seeds})
    for seed in seeds if len(seeds) > 1 else ():
        values = [p.metrics[metric][p.seeds.index(seed)] if seed in p.seeds else math.nan for p in points]
        axis.plot(x, values, color=colour, linestyle=DASHES[style], linewidth=0.6, alpha=0.4)
    look = {"linewidth": 1.3, "linestyle": DASHES[style], "markersize": 3.8, "markeredgecolor": PAPER}
    axis.plot(x, means, "o", color=colour, **look)


def _scaled(axis: Any, results: ResponseResults, key: str, side: str = "x") -> Any:
    """Set up the axis of a key and return the position of a value: its value, or its index among texts."""
    values = [p.values[key] for p in results.points if key in p.values]
    if key in results.base:
        values.append(results.base[key])
    scale, ticks, limits = (getattr(axis, f"set_{side}{what}") for what in ("scale", "ticks", "lim"))
    if is_numeric(results, key) and sortable(results.base.get(key, 0))[0] == 0:
        numbers = [float(v) for v in values]
        positive = [v for v in numbers if v > 0]
        if positive and max(positive) / min(positive) > LOGARITHMIC:
            scale("log") if len(positive) == len(numbers) else scale("symlog", linthresh=min(positive))
            ticks(*_log_ticks(numbers))
            axis.minorticks_off()
        return float
    names = sorted({str(v) for v in values})
    ticks(range(len(names)), names, rotation=25 if side == "x" and len(names) > 3 else 0)
    limits(-0.5, len(names) - 0.5)
    return lambda value: names.index(str(value))


def _log_ticks(numbers: Sequence[float]) -> tuple[list[float], list[str]]:
    """Ticks and their labels on a logarithmic axis.

    Few values of at most four digits are ticks themselves. Otherwise, ticks are decades, with 2 and 5
    between few of them.
    """
    shown = sorted(set(numbers))
    if len(shown) > 7 or not all(math.isclose(v, float(f"{v:.4g}"), rel_tol=1e-6) for v in shown):
        positive = [v for v in shown if v > 0]
        low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
        steps = (1, 2, 5) if high - low < 3 else (1,)
        within = [s * 10.0**k for k in range(low, high + 1) for s in steps]
        shown = [v for v in within if 0.95 * min(positive) <= v <= 1.05 * max(positive)]
    return shown, _named(shown, numbers)


def _named(values: Sequence[float], drawn: Sequence[float]) -> list[str]:
    """Labels of ticks on a logarithmic axis, powers of ten first. Ticks too close to a labelled one have none."""
    least = min(v for v in (*values, *drawn) if v > 0)
    across = {v: math.log10(v if v > 0 else least / 10) for v in (*values, *drawn)}  # below `least`: a decade
    letters = _KEY_WIDTH / max(1.1 * (max(across.values()) - min(across.values())), 1e-9)  # with its margins
    named: dict[float, str] = {}
    for value in sorted(values, key=lambda v: (not across[v].is_integer(), len(f"{v:g}"), v)):
        name = f"{value:g}"
        if all(letters * abs(across[value] - across[v]) > (len(name) + len(n)) / 2 for v, n in named.items()):
            named[value] = name
    return [named.get(value, "") for value in values]


def _key(figure: Any, results: ResponseResults, labels: dict[str, int], band: float) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    if len(labels) > MOST_LINES:
        text = "a line for each setting of the other keys"
        handles.append(Line2D([], [], color=INK, linewidth=1.3, label=text))
    for name, place in labels.items() if len(labels) <= MOST_LINES else ():
        style = place % MOST_LINES
        text = name or "others as in the preset"
        handles.append(Line2D([], [], color=PALETTE[style], linestyle=DASHES[style], linewidth=1.3, label=text))
    if not labels:
        handles.append(Line2D([], [], color=SWEPT, marker="o", linestyle="", label="a point, mean of its seeds"))
    if any(p.stopped for p in results.points):
        handles.append(Line2D([], [], color=SOFT, marker="o", linestyle="", alpha=0.5, label="ended early"))
    handles.append(Line2D([], [], color=INK, linewidth=0.9, linestyle=(0, (1, 2)), label="value of the preset"))
    if len(results.seeds) > 1 and labels:
        handles.append(Line2D([], [], color=SOFT, marker="|", linestyle="", label="95 % interval over seeds"))
    if band:
        handles.append(Patch(facecolor=AXIS, alpha=0.35, label=f"mean ± {band:.2g}, the claim's margin here"))
    add_legend(figure, handles)


def pairs_of(results: ResponseResults) -> list[tuple[str, str]]:
    """Pairs of keys of which at least four points have neither at the preset's value.

    An alternative and the keys below it are no pair, since it has one value in all points with these keys.
    """
    pairs = []
    for one, other in combinations(results.keys, 2):
        both = [p for p in results.complete if one in p.values and other in p.values]
        if any(len({repr(p.values[key]) for p in both}) < 2 for key in (one, other)):
            continue
        away = [p for p in both if all(p.values[k] != results.base.get(k) for k in (one, other))]
        if len(away) >= 4:
            pairs.append((one, other))
    return pairs


def interaction_figure(results: ResponseResults, ranked: Sequence[str] = ()) -> dict[str, bytes] | None:
    """The objective as colour over pairs of keys that were varied together; None if there is no such pair.

    Of many pairs, the pairs of the most important keys (`ranked`) are shown.
    """
    rank = {key: place for place, key in enumerate(ranked)}
    pairs = sorted(pairs_of(results), key=lambda pair: sum(rank.get(key, len(rank)) for key in pair))[:MOST_PAIRS]
    if not pairs:
        return None
    shown = [p.objective.mean for p in results.complete]
    columns = min(2, len(pairs))
    rows = -(-len(pairs) // columns)
    with styled():
        figure = blank(2.5 * rows, WIDTH if columns > 1 else COLUMN + 0.8)
        axes = figure.subplots(rows, columns, squeeze=False)
        drawn: Any = None
        for axis, (one, other) in zip(axes.flat, pairs, strict=False):
            x_place, y_place = _scaled(axis, results, one), _scaled(axis, results, other, "y")
            points = [p for p in results.complete if one in p.values and other in p.values]
            drawn = axis.scatter(
                [x_place(p.values[one]) for p in points],
                [y_place(p.values[other]) for p in points],
                c=[p.objective.mean for p in points],
                cmap="cividis",
                vmin=min(shown),
                vmax=max(shown),
                s=34,
                edgecolors=SOFT,  # dark points on a dark page
                linewidths=0.6,
            )
            best = results.chosen()
            if best is not None and one in best.values and other in best.values:
                x, y = x_place(best.values[one]), y_place(best.values[other])
                axis.plot([x], [y], "o", ms=9, markerfacecolor="none", markeredgecolor=REFERENCE, markeredgewidth=1.3)
            axis.set_xlabel(one)
            axis.set_ylabel(other)
        for axis in axes.flat[len(pairs) :]:
            axis.set_visible(False)
        figure.colorbar(drawn, ax=axes, shrink=0.85, label=OBJECTIVES[results.objective])
        return rendered(figure)


def front_figure(results: ResponseResults) -> dict[str, bytes] | None:
    """Every complete point by rsum and pair accuracy on validation, with the Pareto front as steps.

    None if fewer than two points have both numbers.
    """
    shown = [point for point in results.complete if RSUM in point.metrics and PAIRS in point.metrics]
    if len(shown) < 2:
        return None
    with styled():
        figure = blank(2.7, COLUMN + 0.8)
        axis: Any = figure.subplots()
        best, kept = front(results), results.chosen()

        def place(points: Sequence[Point]) -> tuple[list[float], list[float]]:
            means = [(interval(p.metrics[RSUM]).mean, interval(p.metrics[PAIRS]).mean) for p in points]
            return [x for x, _ in means], [y for _, y in means]

        axis.plot(*place(shown), "o", ms=4, color=SOFT, label="points")
        axis.step(*place(best), where="post", color=SWEPT, linewidth=1)  # from the highest rsum to the left
        axis.plot(*place(best), "o", ms=5.5, color=SWEPT, label="Pareto front")
        if kept is not None:
            ring = {"ms": 10, "markerfacecolor": "none", "markeredgecolor": REFERENCE, "markeredgewidth": 1.3}
            axis.plot(*place([kept]), "o", label="best point", **ring)
        axis.set_xlabel(OBJECTIVES["rsum"])
        axis.set_ylabel(_PAIRS)
        axis.legend(fontsize=7, frameon=False)
        return rendered(figure)


def importance_figure(measured: Importance) -> dict[str, bytes]:
    """Bars of permutation importance, largest at the top, with one standard deviation over permutations."""
    names = list(measured.shares)[::-1]
    means, spread = [measured.shares[n][0] for n in names], [measured.shares[n][1] for n in names]
    with styled():
        figure = blank(0.28 * len(names) + 0.7)
        axis: Any = figure.subplots()
        axis.barh(names, means, xerr=spread, color=SWEPT, ecolor=INK, height=0.6, capsize=2)
        axis.set_xlabel("R² lost when the values of a key are permuted")
        axis.axvline(0, color=INK, linewidth=0.8)
        return rendered(figure)
