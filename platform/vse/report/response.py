"""Results of a sweep of trainings as plain data: the one input of its figures, its tables and its page."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from typing import Any

from vse.errors import InputError
from vse.evaluation.intervals import Interval, interval
from vse.report.curve import Metrics

SCHEMA_VERSION = 1
KIND = "objective"
OBJECTIVE = "objective"
RSUM, PAIRS = "val/rsum", "val/attack/pair_accuracy"  # PAIRS: mean over the attacks


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One configuration: `changes` as searched, `values` of every searched key, and the results of its seeds.

    `metrics` has one value for each of `seeds`, in their order, the objective included. `stopped`: a seed was ended
    early, after `epochs`. `runs` and `hits` name, by seed, the run and the file of its outcomes on test ("": none).
    """

    label: str
    changes: dict[str, Any]
    values: dict[str, Any]
    seeds: list[int]
    metrics: Metrics
    epochs: list[int]
    seconds: float
    stopped: bool
    runs: dict[str, str]
    hits: dict[str, str] = field(default_factory=dict)

    @property
    def objective(self) -> Interval:
        """The objective over seeds."""
        return interval(self.metrics[OBJECTIVE])


@dataclass(frozen=True, kw_only=True, slots=True)
class ResponseResults:
    """Results of a sweep of trainings.

    Attributes:
        keys: searched keys with more than one value.
        base: the preset's values of the keys of the space, if it has them.
        points: in the order of the trials.
        best: index of the chosen point; None before any is complete.
        left: number of trials that a cap held back; -1: unknown.
        failed: errors by label of the trial.
        claims: verdicts on registered claims by name.
    """

    name: str
    label: str
    data: str
    preset: str
    method: str
    objective: str
    rule: str
    seeds: list[int]
    keys: list[str]
    base: dict[str, Any]
    points: list[Point]
    best: int | None
    seconds: float
    gpu_hours: float
    left: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    claims: dict[str, Any] = field(default_factory=dict)

    @property
    def complete(self) -> list[Point]:
        """Points with all seeds run to their end."""
        return [p for p in self.points if len(p.seeds) == len(self.seeds) and not p.stopped]

    def chosen(self) -> Point | None:
        """The best point."""
        return None if self.best is None else self.points[self.best]

    def at_base(self) -> Point | None:
        """The point of the preset itself, if it has finished with all seeds."""
        return next((p for p in self.complete if p.values == self.base), None)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `results.json`."""
        return {"schema": SCHEMA_VERSION, "kind": KIND, **asdict(self)}


def from_dict(data: Mapping[str, Any]) -> ResponseResults:
    """Results as `to_dict` wrote them. Raises InputError for another version."""
    if data.get("schema") != SCHEMA_VERSION or data.get("kind") != KIND:
        raise InputError(f"results of version {data.get('schema')}, this code reads {SCHEMA_VERSION} of kind {KIND}")
    fields = {key: value for key, value in data.items() if key not in ("schema", "kind")}
    fields["points"] = [Point(**point) for point in fields["points"]]
    return ResponseResults(**fields)


def choose(points: Sequence[Point], seeds: int) -> int | None:
    """The index of the complete point with the best mean objective, the first of equals; None if none is complete."""
    best: int | None = None
    for place, point in enumerate(points):
        if len(point.seeds) == seeds and not point.stopped:
            above = best is None or point.objective.mean > points[best].objective.mean
            best = place if above else best
    return best


def front(results: ResponseResults) -> list[Point]:
    """The Pareto front of rsum and pair accuracy on validation: the complete points that no other one equals or exceeds
    in both means and exceeds in one, by falling rsum. Empty if the sweep measured no attacks."""
    means = [
        (interval(point.metrics[RSUM]).mean, interval(point.metrics[PAIRS]).mean, point)
        for point in results.complete
        if RSUM in point.metrics and PAIRS in point.metrics
    ]
    kept, highest = list[Point](), -math.inf
    for _, each in groupby(sorted(means, key=lambda mean: -mean[0]), key=lambda mean: mean[0]):
        alike = list(each)
        best = max(pairs for _, pairs, _ in alike)
        if best > highest:
            kept += [point for _, pairs, point in alike if pairs == best]
            highest = best
    return kept


def lines_of(results: ResponseResults, key: str) -> list[tuple[str, list[Point]]]:
    """Sets of two or more points that differ only in one key, sorted by it.

    Returns:
        (other settings that differ from the preset, points) of each set, the set of the preset first.
    """
    groups: dict[tuple[tuple[str, str], ...], list[Point]] = {}
    for point in results.points:
        if key in point.values and point.metrics.get(OBJECTIVE) and not point.stopped:
            rest = tuple((k, repr(v)) for k, v in point.values.items() if k != key and k in results.keys)
            groups.setdefault(rest, []).append(point)
    lines = []
    for rest, points in groups.items():
        if len({repr(p.values[key]) for p in points}) > 1:
            off = [f"{k.rpartition('.')[2]}={v}" for k, v in rest if v != repr(results.base.get(k))]
            lines.append((", ".join(off), sorted(points, key=lambda p: sortable(p.values[key]))))
    return sorted(lines, key=lambda line: (line[0] != "", line[0]))


def sortable(value: Any) -> tuple[int, float, str]:
    """Numbers by size, then everything else by its text."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return (0, float(value), "")
    return (1, 0.0, str(value))


def is_numeric(results: ResponseResults, key: str) -> bool:
    """Whether all values of a key are numbers."""
    return all(sortable(p.values[key])[0] == 0 for p in results.points if key in p.values)
