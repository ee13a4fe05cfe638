"""Figures of a sweep of trainings: response curves, interactions, importance."""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import Any

from vse.evaluation.intervals import interval
from vse.report.importance import Importance
from vse.report.response import OBJECTIVE, Point, ResponseResults, is_numeric, lines_of, sortable
from vse.report.style import COLUMN, GRID, INK, PALETTE, REFERENCE, SOFT, STYLE, SWEPT, WIDTH, legend_columns, rendered

DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (4, 1, 1, 1)), (0, (7, 2)), (0, (2, 2)))
MOST_LINES = len(PALETTE)  # more of them are a cloud, and only points are drawn
MOST_PAIRS = 6
_KEY_WIDTH = 22  # letters of a key that stand below a panel
BESIDE = 4  # keys beside each other; more go on below
DECADE = 20.0  # ratio of the ends of a range from which its axis is logarithmic
NAMES = {OBJECTIVE: "objective", "val/rsum": "validation rsum", "test/rsum": "test rsum"}


def response_figure(results: ResponseResults, band: float = 0.0) -> dict[str, bytes]:
    """{"png", "svg"}: one panel a searched key and metric (the objective; rsum on test where it was measured), metrics
    below each other.

    A line joins points that differ in that key alone, with 95 % intervals over seeds where there are several; other
    points are dots. The value of the preset is dotted. `band`: half width of the equivalence band of a claim, around
    the mean of all points on test.
    """
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = [m for m in (OBJECTIVE, "test/rsum") if any(m in p.metrics for p in results.points)]
    columns = min(BESIDE, max(1, len(results.keys)))
    blocks = max(1, math.ceil(len(results.keys) / columns))
    with matplotlib.rc_context(STYLE):
        height = 1.7 * len(rows) * blocks + 0.5
        figure = Figure(figsize=(WIDTH if columns > 1 else COLUMN, height), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(blocks * len(rows), columns, squeeze=False, sharey="row")
        labels: dict[str, int] = {}
        for place, key in enumerate(results.keys):
            block, column = divmod(place, columns)
            for row, metric in enumerate(rows):
                axis = axes[block * len(rows) + row][column]
                _response(axis, results, key, metric, labels, band if metric == "test/rsum" else 0.0)
                if column == 0:
                    axis.set_ylabel(_metric_name(results, metric))
                    axis.set_ylim(*_room([v for p in results.points for v in p.metrics.get(metric, [])]))
                if row == len(rows) - 1:
                    axis.set_xlabel(_broken(key))
        for axis in axes.flat[len(rows) * columns * (blocks - 1) :] if results.keys else ():
            axis.set_visible(axis.has_data())
        _key(figure, results, labels, band)
        return {kind: rendered(figure, kind) for kind in ("png", "svg")}


def _broken(key: str) -> str:
    """A key that goes on in the next line behind its dots, where it is wider than a panel."""
    return key.replace(".", ".\n") if len(key) > _KEY_WIDTH else key


def _room(values: Sequence[float]) -> tuple[float, float]:
    """Ends of an axis made for every value of every seed; intervals of two or three seeds may leave it."""
    low, high = min(values), max(values)
    margin = 0.12 * max(high - low, 1.0)
    return low - margin, high + margin


def _metric_name(results: ResponseResults, metric: str) -> str:
    if metric != OBJECTIVE:
        return NAMES.get(metric, metric)
    return {"rsum": "validation rsum", "pairs": "validation pairs (%)", "both": "validation, both (%)"}[
        results.objective
    ]


def _response(axis: Any, results: ResponseResults, key: str, metric: str, labels: dict[str, int], band: float) -> None:
    axis.grid(axis="y", color=GRID, linewidth=0.6)
    axis.set_axisbelow(True)
    place = _scaled(axis, results, key)
    lines = lines_of(results, key)
    measured = [p for p in results.points if metric in p.metrics]
    if band and measured:
        mean = sum(interval(p.metrics[metric]).mean for p in measured) / len(measured)
        axis.axhspan(mean - band, mean + band, color="#9CA3AF", alpha=0.25, linewidth=0)
    loose = [p for p in _loose(results, key) if metric in p.metrics]
    whole = [p for p in loose if not p.stopped]
    early = [p for p in loose if p.stopped]
    _dots(axis, whole, key, metric, place, SWEPT, 0.55)
    _dots(axis, early, key, metric, place, SOFT, 0.35)
    for name, points in lines if len(lines) <= MOST_LINES else ():
        style = labels.setdefault(name, len(labels)) % MOST_LINES
        _line(axis, [p for p in points if metric in p.metrics], key, metric, place, style)
    if key in results.base:
        axis.axvline(place(results.base[key]), color=INK, linewidth=0.9, linestyle=(0, (1, 2)))


def _loose(results: ResponseResults, key: str) -> list[Point]:
    """Points that are dots in the panel of a key: those on none of its lines.

    Where it has lines, points on a line of another key are left out if they stand at the preset's value of this one,
    all above each other; but not where they have keys that no point on its lines has, as below an alternative, or this
    key would be taken not to have had their values.
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
    """Points on the lines of a key, where these are drawn."""
    lines = lines_of(results, key)
    return [p for _, points in lines for p in points] if len(lines) <= MOST_LINES else []


def _dots(axis: Any, points: Sequence[Point], key: str, metric: str, place: Any, colour: str, strength: float) -> None:
    x, y = [place(p.values[key]) for p in points], [interval(p.metrics[metric]).mean for p in points]
    axis.plot(x, y, "o", color=colour, markersize=3.4, alpha=strength, markeredgewidth=0)


def _line(axis: Any, points: Sequence[Point], key: str, metric: str, place: Any, style: int) -> None:
    colour, found = PALETTE[style], [interval(p.metrics[metric]) for p in points]
    x, means = [place(p.values[key]) for p in points], [each.mean for each in found]
    if found and not any(math.isnan(each.half) for each in found):
        halves = [each.half for each in found]
        axis.errorbar(x, means, yerr=halves, fmt="none", ecolor=colour, elinewidth=0.8, capsize=2, alpha=0.7)
    seeds = sorted({seed for point in points for seed in point.seeds})
    for seed in seeds if len(seeds) > 1 else ():
        values = [p.metrics[metric][p.seeds.index(seed)] if seed in p.seeds else math.nan for p in points]
        axis.plot(x, values, color=colour, linestyle=DASHES[style], linewidth=0.6, alpha=0.4)
    axis.plot(
        x, means, "o", color=colour, linewidth=1.3, linestyle=DASHES[style], markersize=3.8, markeredgecolor="white"
    )


def _scaled(axis: Any, results: ResponseResults, key: str) -> Any:
    """Set up the axis of a key and return where a value stands on it: its size, or its place among texts."""
    values = [p.values[key] for p in results.points if key in p.values]
    if key in results.base:
        values.append(results.base[key])
    if is_numeric(results, key) and sortable(results.base.get(key, 0))[0] == 0:
        numbers = [float(v) for v in values]
        positive = [v for v in numbers if v > 0]
        if positive and max(positive) / min(positive) > DECADE:
            if len(positive) < len(numbers):
                axis.set_xscale("symlog", linthresh=min(positive))
            else:
                axis.set_xscale("log")
            axis.set_xticks(*_log_ticks(numbers))
            axis.minorticks_off()
        return float
    names = sorted({str(v) for v in values})
    axis.set_xticks(range(len(names)), names, rotation=0 if len(names) < 4 else 25)
    axis.set_xlim(-0.5, len(names) - 0.5)
    return lambda value: names.index(str(value))


def _log_ticks(numbers: Sequence[float]) -> tuple[list[float], list[str]]:
    """The values themselves where they are few and have four digits at most, as those of grids (1024); else decades,
    with 2 and 5 between them where these are few too."""
    shown = sorted(set(numbers))
    if len(shown) > 7 or not all(math.isclose(v, float(f"{v:.4g}"), rel_tol=1e-6) for v in shown):
        positive = [v for v in shown if v > 0]
        low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
        steps = (1, 2, 5) if high - low < 3 else (1,)
        within = [s * 10.0**k for k in range(low, high + 1) for s in steps]
        shown = [v for v in within if 0.95 * min(positive) <= v <= 1.05 * max(positive)]
    return shown, _named(shown)


def _named(values: Sequence[float]) -> list[str]:
    """Names of ticks on a logarithmic axis, powers of ten first; one that has no room beside those stays without."""
    least = min(v for v in values if v > 0)
    across = {v: math.log10(v if v > 0 else least / 10) for v in values}  # what is linear below `least` takes a decade
    letters = _KEY_WIDTH / max(max(across.values()) - min(across.values()), 1e-9)
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
        handles.append(Patch(facecolor="#9CA3AF", alpha=0.35, label=f"mean ± {band:.2g}, the claim's margin here"))
    labelled = [str(handle.get_label()) for handle in handles]
    width = figure.get_size_inches()[0]
    figure.legend(handles=handles, loc="outside lower center", ncols=legend_columns(labelled, width), frameon=False)


def pairs_of(results: ResponseResults) -> list[tuple[str, str]]:
    """Pairs of keys that were varied together: at least four points with both away from the preset's values. A key and
    the alternative that brings it are none, since that has one value wherever the key is."""
    found = []
    for one, other in combinations(results.keys, 2):
        both = [p for p in results.complete if one in p.values and other in p.values]
        if any(len({repr(p.values[key]) for p in both}) < 2 for key in (one, other)):
            continue
        away = [p for p in both if all(p.values[k] != results.base.get(k) for k in (one, other))]
        if len(away) >= 4:
            found.append((one, other))
    return found


def interaction_figure(results: ResponseResults, ranked: Sequence[str] = ()) -> dict[str, bytes] | None:
    """Every pair of keys that were varied together, the objective as colour; the pairs of the most important keys
    (`ranked`) where there are many. None where no two keys were."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rank = {key: place for place, key in enumerate(ranked)}
    pairs = sorted(pairs_of(results), key=lambda pair: sum(rank.get(key, len(rank)) for key in pair))[:MOST_PAIRS]
    if not pairs:
        return None
    shown = [p.objective.mean for p in results.complete]
    columns = min(2, len(pairs))
    rows = -(-len(pairs) // columns)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH if columns > 1 else COLUMN + 0.8, 2.5 * rows), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(rows, columns, squeeze=False)
        drawn: Any = None
        for axis, (one, other) in zip(axes.flat, pairs, strict=False):
            x_place, y_place = _scaled(axis, results, one), _scaled_y(axis, results, other)
            points = [p for p in results.complete if one in p.values and other in p.values]
            drawn = axis.scatter(
                [x_place(p.values[one]) for p in points],
                [y_place(p.values[other]) for p in points],
                c=[p.objective.mean for p in points],
                cmap="cividis",
                vmin=min(shown),
                vmax=max(shown),
                s=34,
                edgecolors="white",
                linewidths=0.6,
            )
            best = results.chosen()
            if best is not None and one in best.values and other in best.values:
                axis.plot(
                    [x_place(best.values[one])],
                    [y_place(best.values[other])],
                    "o",
                    markersize=9,
                    markerfacecolor="none",
                    markeredgecolor=REFERENCE,
                    markeredgewidth=1.3,
                )
            axis.set_xlabel(one)
            axis.set_ylabel(other)
        for axis in axes.flat[len(pairs) :]:
            axis.set_visible(False)
        figure.colorbar(drawn, ax=axes, shrink=0.85, label=_metric_name(results, OBJECTIVE))
        return {kind: rendered(figure, kind) for kind in ("png", "svg")}


def _scaled_y(axis: Any, results: ResponseResults, key: str) -> Any:
    """As `_scaled`, for the vertical axis."""
    values = [p.values[key] for p in results.points if key in p.values]
    if is_numeric(results, key):
        numbers = [float(v) for v in values]
        if min(numbers) > 0 and max(numbers) / min(numbers) > DECADE:
            axis.set_yscale("log")
            axis.set_yticks(*_log_ticks(numbers))
            axis.minorticks_off()
        return float
    names = sorted({str(v) for v in values})
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(-0.5, len(names) - 0.5)
    return lambda value: names.index(str(value))


def importance_figure(found: Importance) -> dict[str, bytes]:
    """Bars of permutation importance, largest at the top, with one standard deviation over permutations."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = list(found.shares)[::-1]
    means, spread = [found.shares[n][0] for n in names], [found.shares[n][1] for n in names]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 0.28 * len(names) + 0.7), layout="constrained")
        FigureCanvasAgg(figure)
        axis: Any = figure.subplots()
        axis.barh(names, means, xerr=spread, color=SWEPT, ecolor=INK, height=0.6, capsize=2)
        axis.set_xlabel("R² lost when the values of a key are permuted")
        axis.axvline(0, color=INK, linewidth=0.8)
        return {kind: rendered(figure, kind) for kind in ("png", "svg")}
