"""What tasks that train probes share: tables of word vectors side by side, seeds, intervals and paired differences."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import PIL.Image
import torch
from jaxtyping import Float

from vse.config import knob
from vse.data.records import Records, Split
from vse.errors import InputError
from vse.evaluation.metrics import Metric
from vse.evaluation.probes.frozen_vectors import (
    OWN,
    RANDOM,
    RANDOM_DIM,
    image_vectors,
    random_vectors,
    source_labels,
    standardized,
)
from vse.evaluation.statistics import Effect, Sample, bootstrap
from vse.evaluation.task import ONE_RUN, Context, Scope, Subject, Task
from vse.registry import ComponentConfig
from vse.text.components import Components
from vse.text.parse import Parse
from vse.text.word_vectors import WordVectors

_AT_ONCE = 512  # images whose parsed captions are in memory together
TRAIN = "train"


@dataclass(frozen=True, kw_only=True, slots=True)
class ProbeConfig(ComponentConfig):
    """Keys of every such task."""

    words: tuple[str, ...] = knob(
        (OWN,),
        "word vectors: own (the run's), the name of a run, a file, or random; others are compared with the first",
    )
    seeds: tuple[int, ...] = knob((0, 1, 2), "seeds of the probe's training; numbers are means over them", low=0)


class ProbeTask(Task):
    """Base: word vectors of one run and others, read by a probe that is trained on the split `train`."""

    name: str
    config: Any  # a ProbeConfig with further keys
    needs = (ONE_RUN,)
    scope = Scope.SPLIT
    records_queries = True
    parsed = True
    trains_probes = True

    def missing(self, subject: Subject) -> str:
        """Word vectors, if the run's own are requested."""
        lacks = super().missing(subject)
        reads_words = subject.families[0].word_vectors(torch.zeros(1, dtype=torch.long)) is not None
        return lacks or ("" if reads_words or OWN not in self.config.words else "a family that reads word vectors")

    @property
    def word_sources(self) -> tuple[tuple[str, str], ...]:
        return tuple((self._key, source) for source in self.config.words if source not in (OWN, RANDOM))

    @property
    def _key(self) -> str:
        return f"measure.{self.name}.words"

    @property
    def labels(self) -> dict[str, str]:
        """Name in metrics -> source. The others are compared with the first."""
        return source_labels(self.config.words, self._key)

    def check(self, records: Records) -> None:
        _ = self.labels
        if len(set(self.config.seeds)) < max(1, len(self.config.seeds)):
            raise InputError(f"measure.{self.name}.seeds: name one or more different seeds")
        if TRAIN not in records.split_names:
            there = ", ".join(records.split_names)
            raise InputError(f"tasks={self.name}: {records.name} has no split {TRAIN} to train on; it has {there}")

    def tables(self, context: Context, words: Sequence[str]) -> dict[str, WordVectors]:
        """By label, the vectors of some words, which may be equal; zeros for a word that a source lacks."""
        distinct = tuple(dict.fromkeys(words))
        vectors = {label: context.runs.word_vectors(s, distinct) for label, s in self.labels.items() if s != RANDOM}
        own = vectors.get(OWN)
        dim = RANDOM_DIM if own is None else own.dim
        place = {word: row for row, word in enumerate(distinct)}
        rows = np.array([place[word] for word in words], dtype=np.int64)
        return {label: _rows_of(vectors.get(label) or random_vectors(distinct, dim), rows) for label in self.labels}

    def group(self, label: str) -> str:
        """The row of a table."""
        return f"{self.name.replace('_', ' ')}, words: {label}"

    def compared(self, name: str, heading: str, group: str, *, interval: bool = True) -> Iterator[Metric]:
        """The metrics of `numbers`, gains in a row of their own.

        Args:
            name: Name of the metric; `_gain`, `_low` and `_high` are added.
            heading: The column of a table.
            group: The row of a table.
            interval: Whether there are metrics for the ends of the intervals.
        """
        for suffix, title in (("", group), ("_gain", f"{group}, gain")):
            plain = Metric(name=name + suffix, heading=heading, group=title, decimals=2, main=not suffix)
            yield plain
            if interval:
                for end in ("low", "high"):
                    yield replace(plain, name=f"{plain.name}_{end}", heading=f"{heading} {end}", main=False)


def _rows_of(table: WordVectors, rows: np.ndarray) -> WordVectors:
    """Rows of a table, in this order."""
    return replace(
        table,
        words=tuple(table.words[row] for row in rows),
        vectors=table.vectors[rows],
        found=table.found[rows],
    )


def numbers(
    name: str,
    hits: Float[np.ndarray, "seeds units"],
    queries: Float[np.ndarray, " units"],
    first: Float[np.ndarray, "seeds units"] | None = None,
    *,
    interval: bool = True,
) -> dict[str, float]:
    """100 times hits over queries, mean over seeds.

    Args:
        name: Of the metric.
        hits: Of each seed and unit, such as the average precision of an image.
        queries: Of each unit.
        first: Hits of the word vectors that these are compared with: the difference is paired, `<name>_gain`.
        interval: Whether to give 95 % intervals over seeds and units together.

    Returns:
        The value, `<name>_low` and `<name>_high`, and the same of the gain if there is one. Of one seed no interval,
        since that over units is made of what `record` keeps.
    """
    sample = _sample(hits, queries)
    effects: dict[str, Effect] = {name: [(1.0, sample)]}
    if first is not None:
        effects[f"{name}_gain"] = [(1.0, sample), (-1.0, _sample(first, queries))]
    values = dict[str, float]()
    for each, effect in effects.items():
        values[each] = sum(weight * part.value() for weight, part in effect)
        if interval and len(hits) > 1:
            low, high = bootstrap(effect).interval()
            values |= {f"{each}_low": low, f"{each}_high": high}
    return values


def _sample(hits: np.ndarray, queries: np.ndarray) -> Sample:
    return Sample(hits=hits[:, :, None], queries=queries[:, None], images="units")


def record(
    context: Context,
    name: str,
    units: Sequence[str],
    hits: Float[np.ndarray, "seeds units"],
    queries: Float[np.ndarray, " units"],
    first: Float[np.ndarray, "seeds units"] | None,
) -> None:
    """Keep the mean over seeds of each unit, for comparisons with other runs.

    Args:
        context: The measurement that keeps it.
        name: Of the metric; the gain is kept as `<name>_gain`.
        units: Id of each unit, such as an image.
        hits: Of each seed and unit.
        queries: Of each unit; a unit without queries is left out.
        first: Hits of the word vectors that these are compared with; None for the first ones, which have no gain.
    """
    measured = queries > 0
    ids = [unit for unit, there in zip(units, measured, strict=True) if there]
    context.record_values(name, 0, ids, hits.mean(0)[measured], queries[measured])
    if first is not None:
        context.record_values(f"{name}_gain", 0, ids, (hits - first).mean(0)[measured], queries[measured])


def picture_of(context: Context, image: str) -> PIL.Image.Image | None:
    """The picture of an image; None if the data have features only, or it cannot be read."""
    try:
        return context.runs.image(image)
    except InputError:
        return None


def parsed_by_image(context: Context, part: Split) -> Iterator[list[tuple[Parse, Components]]]:
    """What the captions of each image say, image by image."""
    bounds = np.searchsorted(part.caption_to_image, np.arange(len(part.images) + 1))
    for start in range(0, len(part.images), _AT_ONCE):
        stop = min(start + _AT_ONCE, len(part.images))
        first = bounds[start]
        parsed = context.runs.parsed([caption.text for caption in part.captions[first : bounds[stop]]])
        for image in range(start, stop):
            yield parsed[bounds[image] - first : bounds[image + 1] - first]


def vectors_of_images(
    context: Context, train: Split
) -> tuple[Float[np.ndarray, "train channels"], Float[np.ndarray, "images channels"]]:
    """Standardised features of the images of the split `train` and of the measured split."""
    image = context.runs.families[0].inputs.image
    training, measured = (image_vectors(context.runs.examples(part).features[image]) for part in (train, context.split))
    return standardized(training, measured)


def device_of(context: Context) -> torch.device:
    """Where the measured run is."""
    parameter = next(context.runs.families[0].parameters(), None)
    return torch.device("cpu") if parameter is None else parameter.device


def mean_share(mask: np.ndarray) -> float:
    """Percent of a mask that is True."""
    return 100.0 * float(np.mean(mask)) if len(mask) else 0.0
