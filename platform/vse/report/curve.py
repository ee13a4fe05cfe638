"""Results of a sweep of α as plain data: the one input of its figure, its tables and its page."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from vse.errors import InputError
from vse.evaluation.intervals import Interval, interval

SCHEMA_VERSION = 1

Metrics = dict[str, list[float]]
"""Metric name -> one value for each seed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Arm:
    """A model measured at one setting: `label` for readers, its metrics by seed, and the α it learned, if it did."""

    label: str
    metrics: Metrics
    alphas: list[float] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class AlphaResults:
    """`points` has one entry for each of `alphas`, and each metric one value for each of `seeds`, in their order.

    `rule` is the sentence that was fixed beforehand and `chosen` what it chose; `configured` is the α under which the
    checkpoints were selected. `runs` are names of training runs by arm and seed.
    """

    name: str
    label: str
    data: str
    seeds: list[int]
    alphas: list[float]
    points: list[Metrics]
    chosen: float
    configured: float
    rule: str
    reference: Arm | None = None
    learned: Arm | None = None
    runs: dict[str, dict[str, str]] = field(default_factory=dict)

    def at(self, alpha: float) -> Metrics | None:
        """The metrics at an α of the sweep, None if it was not part of it."""
        return self.points[self.alphas.index(alpha)] if alpha in self.alphas else None

    def series(self, metric: str) -> list[Interval]:
        """Mean and interval of a metric at every α."""
        return [interval(point[metric]) for point in self.points]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for `results.json`."""
        return {"schema": SCHEMA_VERSION, **asdict(self)}


def from_dict(data: Mapping[str, Any]) -> AlphaResults:
    """Results as `to_dict` wrote them. Raises InputError for another version."""
    if data.get("schema") != SCHEMA_VERSION:
        raise InputError(f"results of version {data.get('schema')}, this code reads {SCHEMA_VERSION}")
    fields = {key: value for key, value in data.items() if key != "schema"}
    for arm in ("reference", "learned"):
        fields[arm] = Arm(**fields[arm]) if fields.get(arm) else None
    return AlphaResults(**fields)


def by_seed(metrics: Sequence[Mapping[str, float]]) -> Metrics:
    """Mappings of seeds -> one list for each metric that all seeds have."""
    common = [key for key in metrics[0] if all(key in other for other in metrics)]
    return {key: [float(each[key]) for each in metrics] for key in common}
