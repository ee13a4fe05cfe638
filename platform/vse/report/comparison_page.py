"""A comparison as a page with figures, as text for a terminal, and as CSV and plain data for other programs."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from vse.report.comparison import ABSENT, Comparison, Difference, MetricDifferences, method, units_text
from vse.report.files import csv_text
from vse.report.measured import grouped
from vse.report.page import Provenance, render, signed
from vse.report.style import BAND, INK, MARKS, PALETTE, PAPER, SOFT, add_legend, blank, inline, rendered, styled
from vse.report.terminal import size_text

NO_KEY = "no key of the configuration differs: the systems differ in data or code"
_MANY = 3  # systems that a title does not name
# A colour and a mark for each system but the first. A colour is reused with another mark, so no pair repeats.
_STYLES = tuple(
    (PALETTE[k % len(PALETTE)], MARKS[(k + k // len(PALETTE)) % len(MARKS)]) for k in range(len(PALETTE) * len(MARKS))
)
_ROW, _MARK = 0.16, 0.07  # inches of a row, and of every further mark in it


def comparison_page(comparison: Comparison, figures: Mapping[str, bytes], made_with: Provenance) -> str:
    """The page of a comparison: systems, keys that differ, a figure and all numbers of each split, and the method.

    Args:
        comparison: Its first system is the baseline of all differences.
        figures: By split, a figure as SVG; empty if there are too many systems for one.
        made_with: How the results can be reproduced.

    Returns:
        The HTML document.
    """
    first, *others = (system.label for system in comparison.systems)
    against = " and ".join(others) if len(others) < _MANY else f"{len(others)} systems"
    shared, partial = differing(comparison)
    labels = [_unbroken(system.label) for system in comparison.systems]
    sizes = {split: _size(comparison, split) for split in comparison.lines}
    splits = []
    for split, lines in comparison.lines.items():
        by_key = {line.key: line for line in lines}
        groups = [
            (heading, [(key.metric.label, _row(by_key[key])) for key in keys])
            for heading, keys in grouped(by_key).items()
        ]
        splits.append({"name": split, "size": sizes[split], "groups": groups})
    return render(
        "comparison.html",
        title=f"{against} against {first}",
        heading=_unbroken(f"{against} against {first}"),
        lead="All systems were measured on the same images, captions and adversaries.",
        protocol={
            "altered measurement": comparison.altered,  # left out if it is empty
            **{f"split {split}": size for split, size in sizes.items()},
            "seeds": f"{len(comparison.systems[0].seeds)} for each system",
            **({} if None in (folds := comparison.systems[0].folds) else {"test folds": f"{len(folds)}"}),
        },
        headline=_headline(comparison),
        labels=labels,
        systems=[[run.name for run in system.runs] for system in comparison.systems],
        shared={key: [_text(value) for value in values] for key, values in shared.items()},
        no_key=NO_KEY,
        partial={
            key: "; ".join(f"{label}: {_text(v)}" for label, v in zip(labels, values, strict=True) if v != ABSENT)
            for key, values in partial.items()
        },
        notes=comparison.notes,
        method=method(comparison, labels=True),
        figures=[
            (inline(svg, f"split-{k}"), _caption(comparison, split)) for k, (split, svg) in enumerate(figures.items())
        ],
        no_figure=f"No figure: more than {len(_STYLES) + 1} systems." if len(others) > len(_STYLES) else "",
        splits=splits,
        provenance=made_with,
    )


def differing(comparison: Comparison) -> tuple[dict[str, tuple[Any, ...]], dict[str, tuple[Any, ...]]]:
    """Keys that differ: keys that all systems have, and keys of components that some systems lack."""
    shared = {key: values for key, values in comparison.keys.items() if ABSENT not in values}
    return shared, {key: values for key, values in comparison.keys.items() if ABSENT in values}


def _row(line: MetricDifferences) -> dict[str, Any]:
    differences = [
        {"estimate": each.estimate, "excludes_zero": each.clear, "bounds": _bounds(each)} for each in line.differences
    ]
    return {"values": line.values, "differences": differences, "units": line.units}


def _size(comparison: Comparison, split: str) -> str:
    size = comparison.sizes[split]
    return size_text(size) if size.captions else f"{units_text(comparison.lines[split])} images or queries"


def _headline(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """rsum of every other system on the first split; without retrieval, the first of the main metrics."""
    split, lines = next(iter(comparison.lines.items()))
    line = min(lines, key=lambda line: (line.metric.name != "rsum", not line.metric.main))
    for system, difference, value in zip(comparison.others, line.differences, line.values[1:], strict=True):
        values = f"{value:.1f} − {line.values[0]:.1f}, 95 % {_bounds(difference)}"
        yield signed(difference.estimate), f"{line.metric.label} on {split}, {system.label}: {values}"


def _caption(comparison: Comparison, split: str) -> str:
    return (
        f"Differences to {comparison.systems[0].label} on the {split} split with 95 % intervals; a filled mark has an "
        "interval that excludes zero. R@k: share of queries with a right answer among the first k; under attack with "
        "adversarial captions among the candidates. pairs: share of adversaries that score lower than the caption "
        "they were made from. rsum, the sum of the six plain recalls, has a scale of its own."
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _unbroken(label: str) -> str:
    """A label that does not break before the number of a seed or of keys."""
    return re.sub(r"(seed) | (keys?\b)", lambda match: f"{match[1] or ''}\u00a0{match[2] or ''}", label)


def _bounds(difference: Difference) -> str:
    return f"[{signed(difference.low)}, {signed(difference.high)}]"


def terminal_lines(comparison: Comparison) -> Iterator[str]:
    """The systems, every key that differs, a table for each split, and how to read the intervals."""
    number = [str(k) for k in range(1, len(comparison.systems) + 1)]
    for mark, system in zip(number, comparison.systems, strict=True):
        yield f"{mark}  {system.label}: {', '.join(run.name for run in system.runs)}"
    yield from comparison.notes
    shared, partial = differing(comparison)
    if not comparison.keys:
        yield NO_KEY
    else:
        rows = [("keys that differ", *number), *((key, *map(_text, values)) for key, values in shared.items())]
        yield from _aligned(rows, left=True)
    if partial:
        yield f"  and {len(partial)} keys of components that not every system has: see the page, or comparison.json"
    for split, lines in comparison.lines.items():
        yield f"{split}: {_size(comparison, split)}; percent; n: images or queries with an outcome"
        rows = [("", "n", "1", *(text for mark in number[1:] for text in (mark, f"{mark} − 1")))]
        for line in lines:
            others = zip(line.values[1:], line.differences, strict=True)
            cells = ((f"{value:.1f}", f"{signed(each.estimate)} {_bounds(each)}") for value, each in others)
            head = (line.metric.name, f"{line.units:,}", f"{line.values[0]:.1f}")
            rows.append((*head, *(text for pair in cells for text in pair)))
        yield from _aligned(rows)
    yield from method(comparison)


def _aligned(rows: Sequence[Sequence[str]], left: bool = False) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *cells = (
            text.ljust(width) if left or not place else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        yield f"  {'   '.join((first, *cells))}".rstrip()


def to_csv(comparison: Comparison) -> str:
    """One line for each metric and system; `units` are the images or queries that the interval is drawn over."""
    rows = []
    for split, lines in comparison.lines.items():
        for line in lines:
            for place, system in enumerate(comparison.systems):
                difference = line.differences[place - 1] if place else None
                bounds = ("", "", "") if difference is None else (difference.estimate, difference.low, difference.high)
                runs = " ".join(run.name for run in system.runs)
                head = [
                    f"{split}/{line.metric.name}",
                    system.label,
                    runs,
                    len(system.seeds),
                    comparison.sizes[split].images,
                    line.units,
                ]
                rows.append([*head, line.values[place], *bounds])
    head = ["metric", "system", "runs", "seeds", "images", "units", "value", "difference", "low", "high"]
    return csv_text(head, rows)


def to_data(comparison: Comparison) -> dict[str, Any]:
    """The comparison as plain data."""
    splits = {}
    for split, size in comparison.sizes.items():
        metrics = {
            line.metric.name: {
                "units": line.units,
                "values": list(line.values),
                "differences": [asdict(each) for each in line.differences],
            }
            for line in comparison.lines[split]
        }
        splits[split] = {**asdict(size), "metrics": metrics}
    return {
        "systems": [
            {"label": system.label, "runs": [run.name for run in system.runs], "seeds": list(system.seeds)}
            for system in comparison.systems
        ],
        "keys": {key: list(values) for key, values in comparison.keys.items()},
        "altered": comparison.altered,
        "method": method(comparison),
        "notes": list(comparison.notes),
        "splits": splits,
    }


def comparison_figure(comparison: Comparison, split: str) -> dict[str, bytes]:
    """{"png", "svg"}: a row for each metric, with a mark for each system but the first, which is the line at zero.

    Of attacks, R@1 and pair accuracy are shown. Sums and single metrics have panels with different scales, with zero in
    the same place. Empty if there are more systems than distinct marks.
    """
    if len(comparison.others) > len(_STYLES):
        return {}
    shown = [line for line in comparison.lines[split] if line.metric.main]
    by_kind = ([line for line in shown if bool(line.metric.terms) == is_sum] for is_sum in (True, False))
    panels = [lines for lines in by_kind if lines]
    number = len(comparison.others)
    with styled():
        figure = blank(1.1 + (_ROW + _MARK * (number - 1)) * len(shown))
        heights = [len(lines) + 0.4 for lines in panels]
        axes: Any = figure.subplots(len(panels), 1, height_ratios=heights, squeeze=False)[:, 0]
        for axis, lines, limits in zip(axes, panels, _limits(panels), strict=True):
            _panel(axis, lines, number)
            axis.set_xlim(*limits)
        first, scales = comparison.systems[0].label, "; rsum has its own scale" if len(panels) > 1 else ""
        axes[-1].set_xlabel(f"{split} split: difference to {first}\n(percentage points{scales})")
        _figure_legend(figure, comparison)
        return rendered(figure)


def _panel(axis: Any, lines: Sequence[MetricDifferences], number: int) -> None:
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
        colour, mark = _STYLES[place]
        off = spread * (place / (number - 1) - 0.5) if number > 1 else 0.0
        for row, line in enumerate(lines):
            difference = line.differences[place]
            axis.hlines(row + off, difference.low, difference.high, colour, lw=1.2, alpha=0.75)
            look = {"markersize": 3.8, "markeredgewidth": 0.9, "markerfacecolor": colour if difference.clear else PAPER}
            axis.plot([difference.estimate], [row + off], mark, color=colour, **look)


def _limits(panels: Sequence[Sequence[MetricDifferences]]) -> list[tuple[float, float]]:
    """Ends of every panel's axis, such that zero divides all of them in the same ratio."""
    ends = []
    for lines in panels:
        every: list[Difference] = [each for line in lines for each in line.differences]
        low, high = min(0.0, *(each.low for each in every)), max(0.0, *(each.high for each in every))
        room = 0.06 * (high - low) or 1.0
        ends.append((low - room, high + room))
    below, above = (max(abs(pair[side]) / (pair[1] - pair[0]) for pair in ends) for side in (0, 1))
    return [(-below * (high - low), above * (high - low)) for low, high in ends]


def _figure_legend(figure: Any, comparison: Comparison) -> None:
    from matplotlib.lines import Line2D

    handles: list[Any] = []
    for place, system in enumerate(comparison.others):
        colour, mark = _STYLES[place]
        handles.append(Line2D([], [], color=colour, marker=mark, markersize=3.8, linewidth=1.2, label=system.label))
    label = f"{comparison.systems[0].label} (zero)"
    handles.append(Line2D([], [], color=INK, linewidth=0.9, label=label))
    empty = {"marker": "o", "color": SOFT, "markersize": 3.8, "markerfacecolor": PAPER, "linewidth": 0}
    handles.append(Line2D([], [], **empty, label="interval includes zero"))
    add_legend(figure, handles, "outside upper left")
