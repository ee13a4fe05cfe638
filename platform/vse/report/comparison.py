"""Comparison of runs with the first of them: the difference of every metric, with a 95 % interval.

Runs that differ only in their seed are one system, and so are those on the folds of a cross-validation that tests every
image once (`data.held_out=test`): metrics are then means over folds. Intervals come from a paired bootstrap over test
images and, if systems have several seeds, over seeds (`evaluation.statistics`).
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vse.config import fingerprint, flatten, override
from vse.display.counts import count
from vse.errors import InputError
from vse.evaluation.metrics import Metric
from vse.evaluation.outcomes import Outcomes, in_folds
from vse.evaluation.statistics import Sample, bootstrap_all
from vse.report.measured import MetricKey
from vse.stages.measuring.options import Size
from vse.training.config import RunConfig, identity

LEVEL = 0.95
REPLICATES = 4000
FEW_IMAGES = 30  # from which on a bootstrap's intervals have nearly their level: of three, all draws may agree
ABSENT = "–"


@dataclass(frozen=True, kw_only=True, eq=False)
class Compared:
    """A run: its name, its preset if that was kept, and fingerprints of the outputs of earlier stages (`made_of`).

    `start` is the run of its warm start, as `alike` of that run has it.
    """

    name: str
    config: RunConfig
    preset: str = ""
    made_of: Mapping[str, str] | None = None
    start: str = ""

    @property
    def fold(self) -> int | None:
        """The fold whose images are the test images; None if the data set's own are."""
        data: Any = self.config.data
        return data.fold if getattr(data, "held_out", "") == "test" else None

    @property
    def alike(self) -> str:
        """A fingerprint that runs share if they differ in their seed and fold only, and so do those they start from."""
        of_fold = {} if self.fold is None else {"data.fold": 0}
        made_of = {} if of_fold else dict(self.made_of or {})  # each fold has its own training captions
        same: dict[str, Any] = {"seed": 0, **of_fold}
        if self.start:
            made_of.pop("warm_start", None)
            same["train.warm_start"] = self.start
        return fingerprint([override(identity(self.config), same), made_of])


@dataclass(frozen=True, kw_only=True, eq=False)
class System:
    """Runs that differ in their seed and fold only, in the order of their seeds, then folds."""

    label: str
    runs: tuple[Compared, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        """Each once, in order; of one fold, one a run."""
        return _seeds(self.runs)

    @property
    def folds(self) -> tuple[int | None, ...]:
        """The folds that the runs were tested on; None stands for the data set's own test images."""
        return tuple(dict.fromkeys(run.fold for run in self.runs))

    def of_seed(self, seed: int) -> tuple[Compared, ...]:
        """The runs with a seed, by fold."""
        return tuple(run for run in self.runs if run.config.seed == seed)


def systems_of(runs: Sequence[Compared], together: bool = True) -> tuple[System, ...]:
    """Runs grouped into systems, in the order of their first runs.

    If not `together`, or if all runs would be one system, every run is a system, or the runs on all folds of a seed.
    """
    groups: dict[tuple[str, int], list[Compared]] = {}
    times = Counter[tuple[str, int]]()
    for run in runs:
        alike = run.alike
        # the same seed twice, for example of two revisions of training: two systems
        same = (f"{alike} {run.fold}", run.config.seed)
        alone = run.name if run.fold is None else f"{alike} {run.config.seed}"
        groups.setdefault((alike if together else alone, times[same]), []).append(run)
        times[same] += 1
    if together and len(groups) == 1:
        return systems_of(runs, together=False)
    members = [
        tuple(sorted(each, key=lambda run: (run.config.seed, -1 if run.fold is None else run.fold)))
        for each in groups.values()
    ]
    return tuple(System(label=label, runs=each) for label, each in zip(_labels(members), members, strict=True))


def _labels(systems: Sequence[tuple[Compared, ...]]) -> list[str]:
    """Presets if they were kept, else names of runs, made unique by seeds or digits."""
    labels = [each[0].preset or each[0].name for each in systems]
    for label, number in Counter(labels).items():
        alike = [k for k, each in enumerate(labels) if each == label]
        seeds = {k: ", ".join(map(str, _seeds(systems[k]))) for k in alike}
        for k in alike if number > 1 else ():
            suffix = f"seed {seeds[k]}" if len(set(seeds.values())) == number else systems[k][0].name.rpartition("-")[2]
            labels[k] = f"{label}, {suffix}"
    return labels


def with_same_seeds(systems: Sequence[System]) -> tuple[tuple[System, ...], list[str]]:
    """The systems with the seeds that all of them have, and a line for each that leaves some out.

    Systems with no seed in common but equally many are paired in the order of their seeds.

    Raises:
        InputError: numbers of seeds differ too, or a seed lacks a fold that others have.
    """
    folds = dict.fromkeys(fold for system in systems for fold in system.folds)
    for system in systems:
        for seed in system.seeds:
            own = {run.fold for run in system.of_seed(seed)}
            if missing := [_named(fold) for fold in folds if fold not in own]:
                raise InputError(f"runs: {system.label}, seed {seed}: no run on {', '.join(missing)}, as others have")
    common = set.intersection(*(set(system.seeds) for system in systems))
    if not common and len({len(system.seeds) for system in systems}) > 1:
        listed = "; ".join(f"{system.label} has {_listed(system.seeds)}" for system in systems)
        raise InputError(f"runs: systems need a seed in common, or equally many seeds: {listed}")
    kept, lines = [], []
    for system in systems:
        runs = tuple(run for run in system.runs if not common or run.config.seed in common)
        kept.append(replace(system, runs=runs))
        if left := [run for run in system.runs if run not in runs]:
            lines.append(f"{system.label}: {_listed(_seeds(left))} left out, which not every system has")
    return tuple(kept), lines


def _seeds(runs: Sequence[Compared]) -> tuple[int, ...]:
    """The seeds of runs, each once."""
    return tuple(dict.fromkeys(run.config.seed for run in runs))


def _named(fold: int | None) -> str:
    return "the data set's test images" if fold is None else f"test fold {fold}"


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
    """One metric: its value in every system, and the differences of all but the first.

    `units` is the number of images or queries with an outcome, which the intervals are drawn over. Of a sum over
    several sets of them, it is the size of the smallest set.
    """

    key: MetricKey
    values: tuple[float, ...]
    differences: tuple[Difference, ...]
    units: int

    @property
    def metric(self) -> Metric:
        """The metric of this line."""
        return self.key.metric


@dataclass(frozen=True, kw_only=True, eq=False)
class Comparison:
    """The result of a comparison: metrics and sizes by split, keys that differ, and notes.

    `altered` is how the measurement differs from the runs as configured, such as `folds-3` (`measured.altered`).

    A size counts the images and captions of all folds, and the folds. If no captions are ranked, it has no captions,
    and the largest number of images or queries of a metric.
    """

    systems: tuple[System, ...]
    lines: Mapping[str, tuple[MetricDifferences, ...]]
    sizes: Mapping[str, Size]
    keys: Mapping[str, tuple[Any, ...]]
    notes: tuple[str, ...] = ()
    altered: str = ""

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
        InputError: Runs were not measured on the same images or splits, or no metric has a query.
    """
    lines, sizes = dict[str, tuple[MetricDifferences, ...]](), dict[str, Size]()
    for split in outcomes[systems[0].runs[0].name]:
        if lacking := next((name for name, each in outcomes.items() if split not in each), None):
            raise InputError(f"runs: {lacking} has no numbers of {split}")
        trained = [
            [in_folds([outcomes[run.name][split] for run in system.of_seed(seed)]) for seed in system.seeds]
            for system in systems
        ]
        first = trained[0][0]
        for system, each in zip(systems, trained, strict=True):
            if any(one.images != first.images for one in each):
                raise InputError(f"runs: {system.label} and {systems[0].label} have other images in {split}")
        # numbers of folds in `first.by_unit` are no measure: a mean over categories has a fold for each of them
        folds = max(1 + int(first.fold.max(initial=0)), len(systems[0].folds))
        samples = {key: _samples(systems, trained, split, key.metric) for key in keys[split]}
        notes = [*notes, *_uneven(systems, samples, split)]
        if found := _lines(samples):
            images = len(first.images) or max(line.units for line in found)
            sizes[split] = Size(images, first.num_captions, folds)
            lines[split] = found
    if not lines:
        raise InputError("tasks: no metric has a query in all runs")
    return Comparison(
        systems=tuple(systems), lines=lines, sizes=sizes, keys=differing_keys(systems), notes=tuple(notes)
    )


def _samples(
    systems: Sequence[System], trained: Sequence[Sequence[Outcomes]], split: str, metric: Metric
) -> list[list[Sample]]:
    """By system, the samples whose sum is the metric; empty if one of its trainings has no outcomes of it.

    Args:
        systems: for messages.
        trained: outcomes by system and seed.
        split: its name.
        metric: which one.

    Raises:
        InputError: systems were asked other queries.
    """
    terms = [[each.terms(metric) for each in system] for system in trained]
    if not all(each for system in terms for each in system):
        return []
    query_ids, images = [units for units, _, _ in terms[0][0]], trained[0][0].images
    samples = list[list[Sample]]()
    for system, of_seeds in zip(systems, terms, strict=True):
        if any([units for units, _, _ in each] != query_ids for each in of_seeds):
            raise InputError(
                f"runs: {system.label} and {systems[0].label} have different queries for {metric.name} in {split}"
            )
        if any(not np.array_equal(each[0][2], one[2]) for each in zip(*of_seeds, strict=True) for one in each):
            raise InputError(f"runs: seeds of {system.label} have different queries for {metric.name} in {split}")
        samples.append(
            [
                Sample(
                    hits=np.stack([hits for _, hits, _ in each]),
                    queries=each[0][2],
                    images=split if each[0][0] == images else fingerprint([split, each[0][0]]),
                )
                for each in zip(*of_seeds, strict=True)
            ]
        )
    return samples


def _uneven(
    systems: Sequence[System], samples: Mapping[MetricKey, Sequence[Sequence[Sample]]], split: str
) -> Iterator[str]:
    """A note for each group of metrics of which systems have different numbers of queries: a task may leave out what a
    system cannot read, such as a text with an unknown word."""
    noted = set[tuple[str, str]]()
    for key, each in samples.items():
        counts = [sum(float(sample.queries.sum()) for sample in system) for system in each]
        group = key.metric.group or key.metric.heading
        if len(set(counts)) > 1 and (key.task, group) not in noted:
            noted.add((key.task, group))
            numbers = ", ".join(f"{system.label} {count:,.0f}" for system, count in zip(systems, counts, strict=True))
            yield f"{split}, {group}: systems have different numbers of queries ({numbers})"


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
    results = iter(bootstrap_all(effects, replicates=REPLICATES) if effects else ())
    lines = []
    for key, each in defined.items():
        drawn = list(itertools.islice(results, len(each) - 1))
        differences = tuple(Difference(one.estimate, *one.interval(LEVEL)) for one in drawn)
        values = tuple(sum(sample.value() for sample in system) for system in each)
        units = min(int((sample.queries.sum(1) > 0).sum()) for system in each for sample in system)
        lines.append(MetricDifferences(key=key, values=values, differences=differences, units=units))
    return tuple(lines)


def units_text(lines: Sequence[MetricDifferences]) -> str:
    """The numbers of images or queries of some metrics: `57`, or `8 to 57`."""
    numbers = sorted({line.units for line in lines})
    return f"{numbers[0]:,}" + (f" to {numbers[-1]:,}" if len(numbers) > 1 else "")


def method(comparison: Comparison, labels: bool = False) -> list[str]:
    """The method of the intervals and their limits, in sentences. Metrics have their names, or `labels` for readers."""
    number, folds = len(comparison.systems[0].seeds), comparison.systems[0].folds
    sizes = comparison.sizes.values()
    images = " and ".join(
        f"{count(size.images, 'image') if size.captions else f'{units_text(lines)} images or queries'} of {split}"
        + (f" in {size.folds} folds" if size.folds > 1 else "")
        for (split, size), lines in zip(comparison.sizes.items(), comparison.lines.values(), strict=True)
    )
    seeds = {system.seeds for system in comparison.systems}
    over = f"the {images}" + (" with their captions" if all(size.captions for size in sizes) else "")
    if number > 1:
        over += f", and over {number} seeds" + (" (paired in their order)" if len(seeds) > 1 else "")
    sentences = [
        f"Brackets are {100 * LEVEL:g} % intervals (BCa) of a paired bootstrap over {over}; {REPLICATES:,} replicates."
    ]
    if number == 1:
        each = f"{len(folds)} trainings, one for each fold" if len(folds) > 1 else "one training"
        sentences.append(f"Every system is {each}; the intervals do not include the variation between seeds.")
    if any(size.folds > 1 for size in sizes):
        ranked = any(size.folds > 1 and size.captions for size in sizes)
        candidates = ", and each query ranks only the images or captions of its own fold" if ranked else ""
        sentences.append(f"Metrics are means over folds{candidates}.")
    if few := _few(comparison, labels):
        sentences.append(
            f"Fewer than {FEW_IMAGES} images or queries are too few for them: the intervals of {few} are too narrow, "
            "and may exclude zero by chance."
        )
    sentences.append(
        "Intervals are not corrected for multiple comparisons: if nothing differs, about one in twenty excludes zero "
        "by chance."
    )
    return sentences


def _few(comparison: Comparison, labels: bool) -> str:
    """The metrics of fewer than `FEW_IMAGES` images or queries, each with its number; empty if there are none."""
    every = [(split, line) for split, lines in comparison.lines.items() for line in lines]
    few = [(split, line) for split, line in every if line.units < FEW_IMAGES]
    if few and len(few) == len(every):
        return f"all rows (n = {units_text([line for _, line in few])})"
    names = [
        (f"{split}, " if len(comparison.lines) > 1 else "")
        + f"{line.metric.label if labels else line.metric.name} (n = {line.units})"
        for split, line in few
    ]
    return "; ".join(names)
