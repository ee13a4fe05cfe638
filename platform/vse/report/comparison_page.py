"""A comparison as a page, as text for a terminal, and as CSV and plain data for other programs."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from vse.report.comparison import ABSENT, Comparison, Difference, Line, method
from vse.report.files import csv_text
from vse.report.measured import grouped
from vse.report.page import Provenance, count, render, signed
from vse.report.style import inline

NO_KEY = "no key of the configuration differs: the systems differ in data or code"
_MANY = 3  # systems that a title does not name


def comparison_page(comparison: Comparison, figures: Mapping[str, bytes], made_with: Provenance) -> str:
    """The page: which systems and keys, the differences in a figure for each split (SVG), all numbers, the method."""
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
        lead="All systems have met the same images, captions and adversaries.",
        protocol={
            **{f"split {split}": size for split, size in sizes.items()},
            "seeds": f"{len(comparison.systems[0].runs)} for each system",
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
        method=method(comparison),
        figures=[
            (inline(svg, f"split-{k}"), _caption(comparison, split)) for k, (split, svg) in enumerate(figures.items())
        ],
        splits=splits,
        provenance=made_with,
    )


def differing(comparison: Comparison) -> tuple[dict[str, tuple[Any, ...]], dict[str, tuple[Any, ...]]]:
    """Keys that differ: those of all systems, and those of components that not every system has."""
    shared = {key: values for key, values in comparison.keys.items() if ABSENT not in values}
    return shared, {key: values for key, values in comparison.keys.items() if ABSENT in values}


def _row(line: Line) -> dict[str, Any]:
    differences = [
        {"estimate": each.estimate, "excludes_zero": each.clear, "bounds": _bounds(each)} for each in line.differences
    ]
    return {"values": line.values, "differences": differences}


def _size(comparison: Comparison, split: str) -> str:
    images, captions = comparison.sizes[split]
    return f"{count(images, 'image')}, {count(captions, 'caption')}"


def _headline(comparison: Comparison) -> Iterator[tuple[str, str]]:
    """rsum of every other system on the first split."""
    split, lines = next(iter(comparison.lines.items()))
    line = next(line for line in lines if line.metric.name == "rsum")
    for system, difference, value in zip(comparison.others, line.differences, line.values[1:], strict=True):
        text = f"rsum on {split}, {system.label}: {value:.1f} − {line.values[0]:.1f}, 95 % {_bounds(difference)}"
        yield signed(difference.estimate), text


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
    """A label whose number of a seed, or of keys, never begins a line."""
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
        yield f"{split}: {_size(comparison, split)}; percent"
        rows = [("", "1", *(text for mark in number[1:] for text in (mark, f"{mark} − 1")))]
        for line in lines:
            others = zip(line.values[1:], line.differences, strict=True)
            cells = ((f"{value:.1f}", f"{signed(each.estimate)} {_bounds(each)}") for value, each in others)
            rows.append((line.metric.name, f"{line.values[0]:.1f}", *(text for pair in cells for text in pair)))
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
    """One line for each metric and system."""
    rows = []
    for split, lines in comparison.lines.items():
        for line in lines:
            for place, system in enumerate(comparison.systems):
                difference = line.differences[place - 1] if place else None
                bounds = ("", "", "") if difference is None else (difference.estimate, difference.low, difference.high)
                runs = " ".join(run.name for run in system.runs)
                head = [f"{split}/{line.metric.name}", system.label, runs, len(system.runs), comparison.sizes[split][0]]
                rows.append([*head, line.values[place], *bounds])
    head = ["metric", "system", "runs", "seeds", "images", "value", "difference", "low", "high"]
    return csv_text(head, rows)


def to_data(comparison: Comparison) -> dict[str, Any]:
    """All of it as plain data."""
    splits = {}
    for split, (images, captions) in comparison.sizes.items():
        metrics = {
            line.metric.name: {"values": list(line.values), "differences": [asdict(each) for each in line.differences]}
            for line in comparison.lines[split]
        }
        splits[split] = {"images": images, "captions": captions, "metrics": metrics}
    return {
        "systems": [
            {"label": system.label, "runs": [run.name for run in system.runs], "seeds": list(system.seeds)}
            for system in comparison.systems
        ],
        "keys": {key: list(values) for key, values in comparison.keys.items()},
        "method": method(comparison),
        "notes": list(comparison.notes),
        "splits": splits,
    }
