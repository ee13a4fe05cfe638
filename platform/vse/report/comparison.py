"""Comparison of runs with the first of them: the difference of every metric, with a 95 % interval.

Runs that differ only in their seed are one system. Intervals come from a paired bootstrap over test images and, if
systems have several seeds, over seeds (`evaluation.statistics`).
"""

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vse.config import fingerprint, flatten, override
from vse.errors import InputError
from vse.evaluation.metrics import Metric
from vse.evaluation.outcomes import Outcomes
from vse.evaluation.statistics import Sample, bootstrap_all
from vse.report.measured import MetricKey
from vse.training.config import RunConfig, identity

LEVEL = 0.95
REPLICATES = 4000
ABSENT = "–"


@dataclass(frozen=True, kw_only=True, eq=False)
class Compared:
    """A run: its name, its preset if that was kept, and fingerprints of the outputs of earlier stages (`made_of`)."""

    name: str
    config: RunConfig
    preset: str = ""
    made_of: Mapping[str, str] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class System:
    """Runs that differ in their seed only, in the order of their seeds."""

    label: str
    runs: tuple[Compared, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        """One a run."""
        return tuple(run.config.seed for run in self.runs)


def systems_of(runs: Sequence[Compared], together: bool = True) -> tuple[System, ...]:
    """Runs grouped into systems, in the order of their first runs.

    If not `together`, or if all runs would be one system, every run is a system.
    """
    groups: dict[tuple[str, int], list[Compared]] = {}
    times = Counter[tuple[str, int]]()
    for run in runs:
        alike = fingerprint([override(identity(run.config), {"seed": 0}), dict(run.made_of or {})])
        same = (alike, run.config.seed)  # the same seed twice, for example of two revisions of training: two systems
        groups.setdefault((alike, times[same]) if together else (run.name, 0), []).append(run)
        times[same] += 1
    if together and len(groups) == 1:
        return systems_of(runs, together=False)
    members = [tuple(sorted(each, key=lambda run: run.config.seed)) for each in groups.values()]
    return tuple(System(label=label, runs=each) for label, each in zip(_labels(members), members, strict=True))


def _labels(systems: Sequence[tuple[Compared, ...]]) -> list[str]:
    """Presets if they were kept, else names of runs, made unique by seeds or digits."""
    labels = [each[0].preset or each[0].name for each in systems]
    for label, number in Counter(labels).items():
        alike = [k for k, each in enumerate(labels) if each == label]
        seeds = {k: ", ".join(str(run.config.seed) for run in systems[k]) for k in alike}
        for k in alike if number > 1 else ():
            suffix = f"seed {seeds[k]}" if len(set(seeds.values())) == number else systems[k][0].name.rpartition("-")[2]
            labels[k] = f"{label}, {suffix}"
    return labels


def with_same_seeds(systems: Sequence[System]) -> tuple[tuple[System, ...], list[str]]:
    """The systems with the seeds that all of them have, and a line for each that leaves some out.

    Systems with no seed in common but equally many are paired in the order of their seeds. Raises InputError if
    numbers of seeds differ too.
    """
    common = set.intersection(*(set(system.seeds) for system in systems))
    if not common and len({len(system.seeds) for system in systems}) > 1:
        listed = "; ".join(f"{system.label} has {_listed(system.seeds)}" for system in systems)
        raise InputError(f"runs: systems need a seed in common, or equally many seeds: {listed}")
    kept, lines = [], []
    for system in systems:
        runs = tuple(run for run in system.runs if not common or run.config.seed in common)
        kept.append(replace(system, runs=runs))
        if left := [run for run in system.runs if run not in runs]:
            seeds = _listed(tuple(run.config.seed for run in left))
            lines.append(f"{system.label}: {seeds} left out, which not every system has")
    return tuple(kept), lines


def _listed(seeds: Sequence[int]) -> str:
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"


def differing_keys(systems: Sequence[System]) -> dict[str, tuple[Any, ...]]:
    """The values of all systems by key, of keys that differ; `ABSENT` if a component lacks the key."""
    settings = [flatten(identity(system.runs[0].config)) for system in systems]
    differing: dict[str, tuple[Any, ...]] = {}
    for key in dict.fromkeys(key for each in settings for key in each):
        values = tuple(each.get(key, ABSENT) for each in settings)
        if key == "seed":
            values = tuple(", ".join(map(str, system.seeds)) for system in systems)
        if any(value != values[0] for value in values):
            differing[key] = values
    return differing


@dataclass(frozen=True, slots=True)
class Difference:
    """A system's metric minus the first system's, with its interval."""

    estimate: float
    low: float
    high: float

    @property
    def clear(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricDifferences:
    """One metric: its value in every system, and the differences of all but the first."""

    key: MetricKey
    values: tuple[float, ...]
    differences: tuple[Difference, ...]

    @property
    def metric(self) -> Metric:
        """Which metric of which task."""
        return self.key.metric


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """The result of a comparison: metrics by split, images and captions of each split, keys that differ, and notes."""

    systems: tuple[System, ...]
    lines: Mapping[str, tuple[MetricDifferences, ...]]
    sizes: Mapping[str, tuple[int, int]]
    keys: Mapping[str, tuple[Any, ...]]
    notes: tuple[str, ...] = ()

    @property
    def others(self) -> tuple[System, ...]:
        """All systems but the first."""
        return self.systems[1:]


def compare(
    systems: Sequence[System],
    outcomes: Mapping[str, Mapping[str, Outcomes]],
    keys: Mapping[str, Sequence[MetricKey]],
    notes: Sequence[str] = (),
) -> Comparison:
    """Differences of metrics, without metrics that have no query, such as pairs of an attack without adversaries.

    Args:
        systems: All have equally many runs.
        outcomes: By run and split.
        keys: The metrics by split, in the order of tables.
        notes: For readers, on what is left out.

    Raises:
        InputError: Runs were not measured on the same images.
    """
    first = outcomes[systems[0].runs[0].name]
    lines, sizes = dict[str, tuple[MetricDifferences, ...]](), dict[str, tuple[int, int]]()
    for split, measured in first.items():
        for system in systems:
            for run in system.runs:
                if outcomes[run.name][split].images != measured.images:
                    raise InputError(f"runs: {run.name} and {systems[0].runs[0].name} have other images in {split}")
        sizes[split] = (len(measured.images), measured.num_captions)
        lines[split] = _lines({key: _samples(systems, outcomes, split, key.metric) for key in keys[split]})
    return Comparison(
        systems=tuple(systems), lines=lines, sizes=sizes, keys=differing_keys(systems), notes=tuple(notes)
    )


def _samples(
    systems: Sequence[System], outcomes: Mapping[str, Mapping[str, Outcomes]], split: str, metric: Metric
) -> list[list[Sample]]:
    """By system, the samples whose sum is the metric; empty if one of its runs has no outcomes of it.

    Raises InputError if runs were asked other queries.
    """
    by_run = {run.name: outcomes[run.name][split].terms(metric) for system in systems for run in system.runs}
    if not all(by_run.values()):
        return []
    first, images = next(iter(by_run)), outcomes[systems[0].runs[0].name][split].images
    for run, terms in by_run.items():
        if [units for units, _, _ in terms] != [units for units, _, _ in by_run[first]]:
            raise InputError(f"runs: {run} and {first} were asked other queries for {metric.name} in {split}")
    samples = list[list[Sample]]()
    for system in systems:
        terms = zip(*(by_run[run.name] for run in system.runs), strict=True)
        samples.append(
            [
                Sample(
                    hits=np.stack([hits for _, hits, _ in each]),
                    queries=each[0][2],
                    images=split if each[0][0] == images else fingerprint([split, each[0][0]]),
                )
                for each in terms
            ]
        )
    return samples


def _lines(samples: Mapping[MetricKey, Sequence[Sequence[Sample]]]) -> tuple[MetricDifferences, ...]:
    """Metrics that have a number in all systems; `samples` of each by system."""
    defined = {
        key: each for key, each in samples.items() if each and all(one.defined for system in each for one in system)
    }
    effects = [
        [*((1.0, sample) for sample in other), *((-1.0, sample) for sample in each[0])]
        for each in defined.values()
        for other in each[1:]
    ]
    results = iter(bootstrap_all(effects, replicates=REPLICATES))
    lines = []
    for key, each in defined.items():
        drawn = list(itertools.islice(results, len(each) - 1))
        differences = tuple(Difference(one.estimate, *one.interval(LEVEL)) for one in drawn)
        values = tuple(sum(sample.value() for sample in system) for system in each)
        lines.append(MetricDifferences(key=key, values=values, differences=differences))
    return tuple(lines)


def method(comparison: Comparison) -> list[str]:
    """The method of the intervals and their limits, in sentences."""
    number = len(comparison.systems[0].runs)
    images = " and ".join(f"{count:,} images of {split}" for split, (count, _) in comparison.sizes.items())
    seeds = {system.seeds for system in comparison.systems}
    over = f"the {images} with their captions"
    if number > 1:
        over += f", and over {number} seeds" + (" (paired in their order)" if len(seeds) > 1 else "")
    sentences = [
        f"Brackets are {100 * LEVEL:g} % intervals (BCa) of a paired bootstrap over {over}; {REPLICATES:,} replicates."
    ]
    if number == 1:
        sentences.append("Every system is one training; the intervals do not include the variation between seeds.")
    sentences.append(
        "They are not corrected for multiple comparisons: if nothing differs, about one in twenty excludes zero by "
        "chance."
    )
    return sentences
