"""Tables of a report: the same rows as CSV for spreadsheets, as JSON for programs and, by a template, for readers."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vse.adversaries.attacks import ATTACKS
from vse.evaluation.intervals import Interval, interval
from vse.evaluation.metrics import RECALLS, WAYS, Metric
from vse.evaluation.tasks.attacks import AttacksTask
from vse.evaluation.tasks.retrieval import RetrievalTask
from vse.report.curve import AlphaResults, Metrics
from vse.report.files import csv_text

PLAIN = ("plain", *WAYS.values())
"""Headings above the columns of plain retrieval."""


@dataclass(frozen=True, slots=True)
class Column:
    """A metric (without its split) under a heading; `group` is the heading above it. Larger is better, or `least`."""

    metric: str
    title: str
    group: str
    least: bool = False

    @classmethod
    def of(cls, metric: Metric) -> "Column":
        """The column of a metric of a task."""
        return cls(metric.name, metric.heading, metric.group or PLAIN[0], least=metric.higher_is_better is False)

    def best(self, values: Iterable[Interval | None]) -> float | None:
        """The best mean of a column; None if nothing was measured."""
        means = [value.mean for value in values if value is not None]
        return None if not means else min(means) if self.least else max(means)


@dataclass(frozen=True, slots=True)
class Row:
    """A model at one setting: one interval a column, None if it was not measured."""

    label: str
    note: str
    values: tuple[Interval | None, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under columns, over one split and a number of seeds."""

    title: str
    split: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def only(self, groups: Sequence[str], title: str) -> "Table":
        """The same rows under the columns of some groups."""
        kept = [k for k in range(len(self.columns)) if self.columns[k].group in groups]
        rows = tuple(Row(row.label, row.note, tuple(row.values[k] for k in kept)) for row in self.rows)
        return Table(f"{title}: {self.title}", self.split, tuple(self.columns[k] for k in kept), rows)

    def to_csv(self) -> str:
        """One line a row; mean and half width of the interval are columns of their own."""
        heads = [name for c in self.columns for name in (f"{self.split}/{c.metric}", f"{self.split}/{c.metric} ±95%")]
        rows = []
        for row in self.rows:
            count = max((v.count for v in row.values if v is not None), default=0)
            rows.append([row.label, row.note, count, *(text for v in row.values for text in _csv_pair(v))])
        return csv_text(["model", "setting", "seeds", *heads], rows)

    def to_data(self) -> list[dict[str, Any]]:
        """Plain data, one object a row; an interval of a single seed has no width."""
        return [
            {
                "model": row.label,
                "setting": row.note,
                "metrics": {
                    f"{self.split}/{c.metric}": {"mean": v.mean, "interval": _finite(v.half), "seeds": v.count}
                    for c, v in zip(self.columns, row.values, strict=True)
                    if v is not None
                },
            }
            for row in self.rows
        ]

    def groups(self) -> list[tuple[str, int]]:
        """Headings of groups of columns, with the number of columns of each."""
        names = [column.group for column in self.columns]
        return [(group, names.count(group)) for group in dict.fromkeys(names)]

    def best(self) -> list[float | None]:
        """The best mean of every column."""
        return [column.best(row.values[k] for row in self.rows) for k, column in enumerate(self.columns)]


def _csv_pair(value: Interval | None) -> tuple[str, str]:
    if value is None:
        return "", ""
    return f"{value.mean:.4f}", "" if math.isnan(value.half) else f"{value.half:.4f}"


def _finite(value: float) -> float | None:
    return None if math.isnan(value) else value


def attack_groups() -> tuple[str, ...]:
    """Headings of the columns of each attack."""
    return tuple(f"{attack} attack" for attack in ATTACKS)


def _columns() -> tuple[Column, ...]:
    shown = {"rsum", *(f"{way}/r{k}" for way in WAYS for k in RECALLS)}
    shown |= {f"attack_{attack}/{name}" for attack in ATTACKS for name in ("r1", "rsum3", "pair_accuracy")}
    metrics = (*RetrievalTask().metrics, *AttacksTask().metrics)
    return tuple(Column.of(metric) for metric in metrics if metric.name in shown)


def alpha_table(results: AlphaResults, split: str = "test") -> Table:
    """Table of the reference, the swept model at its configured α, its chosen α and α = 1, and the learned α.

    Means over seeds with 95 % intervals. `rsum3` is the sum of R@1, R@5 and R@10 of image to sentence; `pairs` is the
    share of adversaries that score lower than the caption they were made from.
    """
    rows: list[Row] = []
    columns = _columns()

    def add(label: str, note: str, metrics: Metrics | None) -> None:
        if metrics is not None:
            values = (metrics.get(f"{split}/{column.metric}") for column in columns)
            rows.append(Row(label, note, tuple(interval(each) if each else None for each in values)))

    if results.reference is not None:
        add(results.reference.label, "", results.reference.metrics)
    notes: dict[float, list[str]] = {}
    for alpha, why in ((results.configured, "as configured"), (results.chosen, "chosen"), (1.0, "u_sent alone")):
        notes.setdefault(alpha, []).append(why)
    for alpha, why in notes.items():
        add(f"{results.label} α = {alpha:g}", ", ".join(why), results.at(alpha))
    if results.learned is not None:
        note = "α = " + ", ".join(f"{alpha:.2f}" for alpha in results.learned.alphas)
        add(results.learned.label, note if results.learned.alphas else "", results.learned.metrics)
    seeds = len(results.seeds)
    title = f"{split} split, percent, mean over {seeds} seed{'s' if seeds > 1 else ''}"
    return Table(title + (" ± 95 % interval" if seeds > 1 else ""), split, columns, tuple(rows))


def curve_csv(results: AlphaResults) -> str:
    """Every metric at every α: one line an α and seed."""
    names = sorted({name for point in results.points for name in point})
    rows = [
        [alpha, seed, *(repr(point[name][place]) if name in point else "" for name in names)]
        for alpha, point in zip(results.alphas, results.points, strict=True)
        for place, seed in enumerate(results.seeds)
    ]
    return csv_text(["alpha", "seed", *names], rows)


def metrics_csv(rows: Mapping[str, Mapping[str, float]]) -> str:
    """Any metrics as CSV: one line an entry of `rows`, one column a metric."""
    names = sorted({name for metrics in rows.values() for name in metrics})
    return csv_text(
        ["run", *names],
        [
            [label, *(repr(metrics[name]) if name in metrics else "" for name in names)]
            for label, metrics in rows.items()
        ],
    )
