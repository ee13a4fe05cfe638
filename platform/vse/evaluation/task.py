"""Evaluation tasks: their keys, requirements, metrics as data, and how they measure a split.

A task is one file of `vse.evaluation.tasks` that registers itself. Names in files, in MLflow and on pages, the order of
tables and their headings come from its `metrics`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike

from vse.data.records import Records, Split
from vse.data.source import Source
from vse.evaluation import protocol as protocols
from vse.evaluation.attacks import AnySet, Attacked, OwnScores, attack, own_scores, restrict
from vse.evaluation.codes import Codes
from vse.evaluation.metrics import Metric, Ranks, RetrievalCounter
from vse.evaluation.retrieval import Encoded, ScoresParts, count_retrieval, slice_items
from vse.evaluation.runs import Runs as Runs
from vse.evaluation.runs import SaliencyQuery as SaliencyQuery
from vse.models.family import Family
from vse.registry import ComponentConfig


@dataclass(frozen=True, eq=False)
class AdversarialTexts:
    """Adversarial captions of a split in one kind of words: texts by attack, and the same to be encoded in blocks."""

    texts: Mapping[str, tuple[str, ...]]
    sets: Mapping[str, AnySet]


@dataclass(frozen=True, eq=False)
class Queries:
    """Ranks of the queries of one fold, with images and captions by their positions in the split.

    Args:
        name: Begins the names of the metrics that the queries make: `i2t`, `attack_object`.
        fold: Its number.
        ranks: One for each query.
        images: The image of each query.
        captions: The caption of each query, if captions are the queries.
        pairs: (queries, 2): adversaries that lose against the caption that they were made from, and adversaries.
    """

    name: str
    fold: int
    ranks: Ranks
    images: np.ndarray
    captions: np.ndarray | None = None
    pairs: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class UnitValues:
    """A metric of one fold by the units that the bootstrap resamples: 100 times the sum of hits / queries.

    Args:
        metric: Its name.
        fold: Number of the fold.
        units: Ids of images, or queries such as "red circle"; each once.
        hits: (units,).
        queries: (units,).
    """

    metric: str
    fold: int
    units: tuple[str, ...]
    hits: np.ndarray
    queries: np.ndarray

    def __post_init__(self) -> None:
        shapes = {self.hits.shape, self.queries.shape, (len(self.units),)}
        assert len(shapes) == 1, f"{self.metric}: hits, queries and units differ in shape: {shapes}"
        assert len(set(self.units)) == len(self.units), f"{self.metric}: a unit appears twice"
        other = next((unit for unit in self.units if not isinstance(unit, str)), None)
        assert other is None, f"{self.metric}: the unit {other!r} is no text, such as the id of an image"


class Shards(Protocol):
    """Counts retrieval and attacks of the folds of a split in shards, in this process or in others."""

    def counter(self, fold: int) -> RetrievalCounter:
        """Counted retrieval between the images and the true captions of a fold."""
        ...

    def attacked(
        self, fold: int, counter: RetrievalCounter, attack: tuple[str, str, str], adversaries: AnySet
    ) -> tuple[Attacked, OwnScores]:
        """What an attack adds to the counts of a fold.

        Args:
            fold: Number of the fold.
            counter: Has counted the fold's true captions; it is left as it was.
            attack: (kind, words, name) of the attack.
            adversaries: Adversaries of the captions of the fold.
        """
        ...


class Context:
    """A split as trained runs read it. What tasks share is made once, when the first of them asks.

    Args:
        runs: What is measured.
        split: The whole split. Of a task of the data set, all images and captions.
        protocol: Which images and captions of the split are taken, in how many folds.
        adversaries: By kind and words, those of the captions that the protocol takes.
        whole: Whether the codes are of the whole split, whatever the protocol takes.
        training_images: Ids of the images that a run was trained on. Empty for tasks of a split.
    """

    def __init__(
        self,
        runs: Runs,
        split: Split,
        protocol: protocols.Protocol,
        adversaries: Mapping[tuple[str, str], AdversarialTexts],
        whole: bool = False,
        training_images: Collection[str] = (),
    ) -> None:
        self.runs, self.split, self.protocol = runs, split, protocol
        self.training_images = frozenset(training_images)
        self.known = adversaries
        self._part = split.first(None if whole else protocol.num_images)
        self._own: dict[tuple[str, str], list[dict[str, OwnScores]]] = {}
        self.queries: list[Queries | UnitValues] = []
        self.shards: Shards | None = None
        self.encoder: Callable[[Split], Codes] | None = None  # instead of the runs, in another process

    @property
    def model(self) -> ScoresParts:
        """Scores what the runs encode."""
        return self.runs.model

    @cached_property
    def codes(self) -> Codes:
        """Codes of the images and captions that the protocol takes, or of the whole split."""
        return (self.encoder or self.runs.encode)(self._part)

    @cached_property
    def folds(self) -> tuple[protocols.Fold, ...]:
        """The folds of the protocol."""
        return tuple(self.protocol.select(self._part.caption_to_image, len(self._part.images)))

    @property
    def texts(self) -> list[str]:
        """The captions of all folds."""
        return [self._part.captions[row].text for fold in self.folds for row in fold.captions]

    def encode(self) -> Codes:
        """As `codes`, encoded again: for a task that lets families return further codes."""
        return self.runs.encode(self._part)

    def encoded(self, fold: protocols.Fold, codes: Codes | None = None) -> tuple[Encoded, Encoded]:
        """(images, captions) of a fold, of `codes` unless others are given; no copy if it has all of them."""
        codes = codes or self.codes
        if len(fold.images) == len(self._part.images) and len(fold.captions) == len(self._part.captions):
            return codes.images, codes.captions
        return slice_items(codes.images, fold.images), slice_items(codes.captions, fold.captions)

    @cached_property
    def counters(self) -> tuple[RetrievalCounter, ...]:
        """Counted retrieval between images and true captions for each fold, to which attacks add their captions."""
        if self.shards is not None:
            return tuple(map(self.shards.counter, range(len(self.folds))))
        return tuple(count_retrieval(self.model, *self.encoded(fold), fold.caption_to_image) for fold in self.folds)

    def adversaries(self, kind: str, words: Iterable[str]) -> Iterator[tuple[str, AdversarialTexts]]:
        """(words, adversaries) of a kind, for each choice of words that has any."""
        for each in dict.fromkeys(words):
            if (kind, each) in self.known:
                yield each, self.known[kind, each]

    def attacked(self, kind: str, words: str) -> list[dict[str, Attacked]]:
        """Of each fold, retrieval among its captions and the adversaries of each attack."""
        results = []
        self._own[kind, words] = []
        for number, (fold, counter) in enumerate(zip(self.folds, self.counters, strict=True)):
            sets = {name: restrict(each, fold) for name, each in self.known[kind, words].sets.items()}
            if self.shards is not None:
                both = {
                    name: self.shards.attacked(number, counter, (kind, words, name), each)
                    for name, each in sets.items()
                }
            else:
                images, _ = self.encoded(fold)
                both = {name: attack(self.model, images, counter, each) for name, each in sets.items()}
            results.append({name: attacked for name, (attacked, _) in both.items()})
            self._own[kind, words].append({name: own for name, (_, own) in both.items()})
        return results

    def own_scores(self, kind: str, words: str) -> list[dict[str, OwnScores]]:
        """Of each fold, the scores of the adversaries of each attack with the image of their caption."""
        if (kind, words) not in self._own:
            self._own[kind, words] = [
                {
                    name: own_scores(self.model, self.encoded(fold)[0], counter.caption_to_image, restrict(each, fold))
                    for name, each in self.known[kind, words].sets.items()
                }
                for fold, counter in zip(self.folds, self.counters, strict=True)
            ]
        return self._own[kind, words]

    def record(
        self, name: str, fold: int, ranks: Ranks, pairs: np.ndarray | None = None, *, captions: bool = False
    ) -> None:
        """Keep the result of each query, from which `jobs/compare.py` computes intervals.

        Args:
            name: Begins the names of the metrics that the queries make.
            fold: Its number.
            ranks: Of queries by their positions in the fold.
            pairs: As in `Queries`, by image of the fold.
            captions: Whether captions are the queries, rather than images.
        """
        of, rows = self.folds[fold], ranks.queries.cpu().numpy()
        images = of.images[of.caption_to_image[rows] if captions else rows]
        sought, lost = of.captions[rows] if captions else None, None if pairs is None else pairs[rows]
        self.queries.append(Queries(name, fold, ranks, images, sought, lost))

    def record_values(self, metric: str, fold: int, units: Sequence[str], hits: ArrayLike, queries: ArrayLike) -> None:
        """Keep a metric by unit, from which its interval and differences between runs are computed.

        The value of the metric must be 100 times the sum of hits / the sum of queries, mean over folds. For a mean of
        one value per unit, give the values as `hits` and ones as `queries`.

        Args:
            metric: Its name.
            fold: Number of the fold, or of another part of the queries that weighs as much as each other part, such as
                a category; 0 if there are none.
            units: What is drawn with replacement: ids of images, or queries such as "red circle".
            hits: (units,).
            queries: (units,).
        """
        both = (np.asarray(values, dtype=np.float64) for values in (hits, queries))
        self.queries.append(UnitValues(metric, fold, tuple(units), *both))


@dataclass(frozen=True, eq=False)
class Subject:
    """What a measurement starts from, before anything is encoded.

    Args:
        families: Of the runs.
        source: What the data come from.
        records: The data.
        own_data: Whether they are the runs' own, not `measure.on`.
        grid: Whether features are computed here from one view of a picture, so that a map's cells have known places.
            Asked by tasks that need it alone: a node that measures others may lack the backbone's files.
        pictures: Whether features are computed here from pictures. Asked as `grid`.
        splits: Names of the measured splits.
    """

    families: tuple[Family, ...]
    source: type[Source]
    records: Records
    own_data: bool
    grid: Callable[[], bool] = lambda: False
    pictures: Callable[[], bool] = lambda: False
    splits: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Capability:
    """Something that a task needs. A table says "n/a: needs NAME" if a subject lacks it."""

    name: str
    of: Callable[[Subject], bool]


REGIONS = Capability(
    "vectors of the cells of a map that its backbone computed",
    lambda subject: all(family.inputs.image == "map" for family in subject.families) and subject.grid(),
)
BOXES = Capability("annotated boxes of objects or phrases", lambda subject: bool(subject.records.boxes))
ONE_RUN = Capability("a single run, not an ensemble", lambda subject: len(subject.families) == 1)


class Scope(Enum):
    """What a task measures at once."""

    PROTOCOL = "the images and captions of a split that the protocol takes"
    SPLIT = "a whole split, whatever the protocol"
    DATA = "the data set, once for all splits"


class Task(ABC):
    """Base of all tasks. `--help` shows the first line of a task's docstring.

    Attributes:
        Config: Its keys, below `measure.<task>`.
        needs: What a family or a data set must have.
        not_empty: Keys of lists of which an empty one would leave nothing to measure, so that it is refused.
        scope: What `measure` gets at once.
        parsed: Whether `measure` reads parses of captions, so that they are made for every family.
        reads_boxes: Whether its numbers depend on annotated boxes.
        reads_training: Whether they depend on the training captions, such as through a vocabulary.
        records_queries: Whether `measure` records what single queries met, for intervals and `jobs/compare.py`.
        config_in_names: Whether the names of its metrics say all that `config` changes, such as kinds of words, so that
            numbers of one name under two configurations are the same numbers.
        portable: Whether any node of a cluster can measure it, because it reads nothing but the workspace. Other tasks
            go to another node if all nodes see the run's files.
        trains_probes: Whether it has tasks of Ray train probes, so that it stays with the job's process.
        sharded: Whether it reads counts or scores of the context, which are computed in shards of a large split.
        revision: Raise it whenever the same weights and data give other numbers.
    """

    Config: ClassVar[type[ComponentConfig]] = ComponentConfig
    needs: ClassVar[tuple[Capability, ...]] = ()
    not_empty: ClassVar[tuple[str, ...]] = ()
    scope: ClassVar[Scope] = Scope.PROTOCOL
    parsed: ClassVar[bool] = False
    reads_boxes: ClassVar[bool] = False
    reads_training: ClassVar[bool] = False
    records_queries: ClassVar[bool] = False
    config_in_names: ClassVar[bool] = False
    portable: ClassVar[bool] = False
    trains_probes: ClassVar[bool] = False
    sharded: ClassVar[bool] = False
    revision: ClassVar[int] = 1

    def __init__(self, config: Any = None) -> None:
        self.config: Any = self.Config() if config is None else config  # each task declares its own class

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """`list_metrics` as a tuple."""
        return tuple(self.list_metrics())

    @abstractmethod
    def list_metrics(self) -> Iterable[Metric]:
        """Everything that the task may measure, in the order of tables."""

    @abstractmethod
    def measure(self, context: Context) -> dict[str, float]:
        """Values by the names of `metrics`. What there is nothing to ask of, such as an attack that finds no caption
        to change, is left out. Raises Diverged at a NaN."""

    def pictures(self, context: Context, values: Mapping[str, float]) -> dict[str, bytes]:
        """Files by name, such as `curve.png`, of what was measured; tracked in MLflow next to the numbers."""
        return {}

    @property
    def adversaries(self) -> tuple[tuple[str, str], ...]:
        """(kind, words) of the adversarial captions that `measure` asks the context for: made before it is called."""
        return ()

    @property
    def word_sources(self) -> tuple[tuple[str, str], ...]:
        """(key, value) of runs and files whose word vectors `measure` asks for."""
        return ()

    @property
    def label(self) -> str:
        """For a task on the whole data set: the word in metric names in place of the split."""
        return ""

    def content(self) -> Any:
        """Plain data besides `config` on which the numbers depend, such as the content of files that `config` names."""
        return None

    def check(self, records: Records) -> None:  # noqa: B027  # most tasks have nothing to check
        """Called before anything is encoded. Raises InputError if `config` does not fit the data."""

    def metric(self, name: str) -> Metric:
        """The metric with this name. Raises KeyError if the task has no such metric."""
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Metric]:
        return {metric.name: metric for metric in self.metrics}

    def missing(self, subject: Subject) -> str:
        """What the task needs but the subject lacks; empty if nothing."""
        return " and ".join(need.name for need in self.needs if not need.of(subject))

    @classmethod
    def about(cls) -> str:
        """The first line of its docstring."""
        return (cls.__doc__ or "").partition("\n")[0]


def measured(task: Task, context: Context) -> tuple[dict[str, float], dict[str, bytes], list[Queries | UnitValues]]:
    """(values in the order of `metrics`, pictures, outcomes of queries) of a task on a split."""
    context.queries = []
    values = task.measure(context)
    order = {metric.name: place for place, metric in enumerate(task.metrics)}
    undeclared = ", ".join(sorted(values.keys() - order.keys()))
    assert not undeclared, f"{type(task).__name__} measures {undeclared}, which its metrics do not declare"
    values = {name: values[name] for name in sorted(values, key=order.__getitem__)}
    return values, task.pictures(context, values), context.queries
