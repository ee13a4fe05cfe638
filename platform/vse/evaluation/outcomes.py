"""The outcome of every query of an evaluation as a table, from which recalls over any images can be computed.

A row is one query of a task: an image that looks for its captions (`i2t`, `attack_object`, ...) or a caption that looks
for its image (`t2i`), with the counts that make a rank (`metrics.Ranks`). Rows of an attack also have how many
adversaries the image's captions have, and how many of these lose against the caption that they were made from.

Other metrics have a row for each unit that is drawn for their interval: an image or a query (`unit`), with `hits` and
`queries`, and the name of the metric as `task`.
"""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from vse.data.records import Split
from vse.errors import InputError
from vse.evaluation.metrics import Metric, Ranks
from vse.evaluation.per_image import PerImage, counts_of, recalls
from vse.evaluation.task import Queries, UnitValues
from vse.storage.parquet import parquet_bytes

_COUNTS = ("above", "tied_negatives", "tied_positives")
_SCHEMA = pa.schema(
    [
        ("split", pa.string()),
        ("task", pa.string()),
        ("fold", pa.int32()),
        ("image", pa.string()),
        ("caption", pa.string()),
        *((name, pa.int32()) for name in _COUNTS),
        ("adversaries", pa.int32()),
        ("wins", pa.float64()),
        ("unit", pa.string()),
        ("hits", pa.float64()),
        ("queries", pa.float64()),
    ]
)
_PRINTS = b"vse.fingerprints"


def rows_of(queries: Sequence[Queries | UnitValues], split: Split, label: str) -> list[pa.Table]:
    """Rows of what a task recorded of a split, one table for each recording.

    Args:
        queries: Ranks or values of the folds, as the task recorded them.
        split: The whole split, to whose images and captions the positions refer.
        label: Name of the split with its protocol.
    """
    images = np.array([image.id for image in split.images], dtype=object)
    captions = np.array([caption.id for caption in split.captions], dtype=object)

    def of_queries(each: Queries) -> pa.Table:
        columns = {name: getattr(each.ranks, name).cpu().numpy() for name in _COUNTS} | {"image": images[each.images]}
        if each.captions is not None:
            columns["caption"] = captions[each.captions]
        if each.pairs is not None:
            columns |= {"wins": each.pairs[:, 0], "adversaries": each.pairs[:, 1]}
        return _table(columns, len(each.images), label, each.name, each.fold)

    def of_units(each: UnitValues) -> pa.Table:
        columns = {"unit": np.array(each.units, dtype=object), "hits": each.hits, "queries": each.queries}
        return _table(columns, len(each.units), label, each.metric, each.fold)

    return [of_queries(each) if isinstance(each, Queries) else of_units(each) for each in queries]


def _table(columns: dict[str, np.ndarray], length: int, label: str, task: str, fold: int) -> pa.Table:
    same = {"split": label, "task": task, "fold": fold}
    columns = columns | {name: np.full(length, value, dtype=object) for name, value in same.items()}
    absent = np.full(length, None, dtype=object)
    return pa.table([pa.array(columns.get(each.name, absent), each.type) for each in _SCHEMA], schema=_SCHEMA)


def pack(rows: Sequence[pa.Table], prints: Mapping[str, str]) -> bytes:
    """Rows of any splits as Parquet; `prints`: fingerprints of the data and adversaries that they are of."""
    table = pa.concat_tables(rows).replace_schema_metadata({_PRINTS: json.dumps(dict(prints))})
    return parquet_bytes(table, compression="zstd", compression_level=19)


def unpack(data: bytes) -> tuple[dict[str, "Outcomes"], dict[str, str]]:
    """(outcomes by split, fingerprints) of what `pack` made. Raises InputError for anything else."""
    try:
        table = pq.read_table(pa.BufferReader(data))
        prints = json.loads((table.schema.metadata or {})[_PRINTS])
        return dict(_by_split(table.select(_SCHEMA.names).cast(_SCHEMA))), prints
    except (pa.ArrowException, KeyError, ValueError, OSError) as error:
        raise InputError(f"not a table of outcomes ({type(error).__name__})") from None


@dataclass(frozen=True, eq=False)
class ByUnit:
    """A metric by what is drawn for its interval: names, and hits and queries of each fold, both (units, folds)."""

    units: tuple[str, ...]
    hits: np.ndarray
    queries: np.ndarray


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcomes:
    """Outcomes of one split.

    Args:
        images: Ids of the images of ranked queries, in their order.
        fold: The fold that each is in.
        num_captions: The number of captions that look for their image.
        table: Every recall and pair accuracy per image, by metric without the split.
        by_unit: Other metrics.
    """

    images: tuple[str, ...] = ()
    fold: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    num_captions: int = 0
    table: PerImage = field(default_factory=dict)
    by_unit: Mapping[str, ByUnit] = field(default_factory=dict)

    def __or__(self, other: "Outcomes") -> "Outcomes":
        """With what further tasks recorded of the same split, which may have asked other images."""
        images = tuple(dict.fromkeys((*self.images, *other.images)))
        place = {image: k for k, image in enumerate(images)}

        def among(values: np.ndarray, of: Outcomes) -> np.ndarray:
            spread = np.zeros((len(images), *values.shape[1:]), values.dtype)
            spread[[place[image] for image in of.images]] = values
            return spread

        return Outcomes(
            images=images,
            fold=np.maximum(among(self.fold, self), among(other.fold, other)),
            num_captions=max(self.num_captions, other.num_captions),
            table={name: among(values, of) for of in (self, other) for name, values in of.table.items()},
            by_unit={**self.by_unit, **other.by_unit},
        )

    def terms(self, metric: Metric) -> list[tuple[tuple[str, ...], np.ndarray, np.ndarray]]:
        """What a metric is the sum of: (units, hits, queries) of each set of units, hits and queries (units, terms).

        The units are drawn with replacement. A metric of which nothing was recorded has none.
        """
        if metric.name in self.table or (metric.terms and all(term in self.table for term in metric.terms)):
            return [(self.images, *self.counts(metric.name, metric.terms))]
        names = (metric.name,) if metric.name in self.by_unit else metric.terms
        if not names or not all(name in self.by_unit for name in names):
            return []
        return [(each.units, *_mean_of_folds(each.hits, each.queries)) for each in map(self.by_unit.get, names) if each]

    def counts(self, metric: str, terms: Sequence[str] = ()) -> tuple[np.ndarray, np.ndarray]:
        """(hits, queries) of a metric's terms, both (images, terms), as `statistics.Sample` takes them.

        terms: The metrics whose sum it is; by default as `terms_of` says.

        A mean over folds becomes a sum over as many terms, each of one fold's images. A fold in which nothing is asked
        counts for nothing, as in `metrics.mean_over_folds`. Raises InputError for a metric that was not measured.
        """
        hits, queries = counts_of(self.table, metric, terms)
        inside = self.fold[:, None] == np.unique(self.fold)  # (images, folds)
        return _mean_of_folds(*(values[:, :, None] * inside[:, None, :] for values in (hits, queries)))


def in_folds(parts: Sequence[Outcomes]) -> Outcomes:
    """Outcomes on each fold of a cross-validation as those of one evaluation: a metric is then the mean over folds.

    Args:
        parts: By fold, of different images. Metrics that a part lacks are left out.
    """
    first, *others = parts
    if not others:
        return first
    sizes = [
        1 + max((int(part.fold.max(initial=0)), *(each.hits.shape[1] - 1 for each in part.by_unit.values())))
        for part in parts
    ]  # folds of a protocol within each
    starts = np.cumsum([0, *sizes[:-1]]).tolist()
    units = {
        name: _joined([part.by_unit[name] for part in parts], starts, sum(sizes))
        for name in first.by_unit
        if all(name in part.by_unit for part in others)
    }
    tables = [part.table for part in parts]
    return Outcomes(
        images=tuple(itertools.chain.from_iterable(part.images for part in parts)),
        fold=np.concatenate([part.fold + start for part, start in zip(parts, starts, strict=True)]),
        num_captions=sum(part.num_captions for part in parts),
        table={
            name: np.concatenate([table[name] for table in tables])
            for name in first.table
            if all(name in table for table in tables)
        },
        by_unit=units,
    )


def _joined(parts: Sequence[ByUnit], starts: Sequence[int], folds: int) -> ByUnit:
    """A metric of each part in one table; a unit that several parts have is drawn for all of them together."""
    row = {unit: k for k, unit in enumerate(dict.fromkeys(unit for part in parts for unit in part.units))}
    counts = np.zeros((2, len(row), folds))
    for part, start in zip(parts, starts, strict=True):
        rows = [row[unit] for unit in part.units]
        counts[:, rows, start : start + part.hits.shape[1]] = part.hits, part.queries
    return ByUnit(tuple(row), *counts)


def _mean_of_folds(hits: np.ndarray, queries: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A mean over folds, which are the last axis, as a sum over terms: those folds in which something is asked."""
    has_queries = queries.sum(0) > 0  # (..., folds)
    folds = has_queries.sum(-1)
    has_queries[folds == 0, 0] = True  # a term that asks nothing leaves the metric without a number
    return (hits / folds.clip(1)[None, ..., None])[:, has_queries], queries[:, has_queries]


def _by_split(table: pa.Table) -> Iterator[tuple[str, Outcomes]]:
    splits = table.column("split").to_numpy()
    for split in dict.fromkeys(splits.tolist()):
        whole = table.filter(pa.array(splits == split))
        of_units = whole.column("unit").is_valid().to_numpy()
        rows, by_unit = whole.filter(pa.array(~of_units)), _by_unit(whole.filter(pa.array(of_units)))
        if not len(rows):
            yield split, Outcomes(by_unit=by_unit)
            continue
        image = rows.column("image").combine_chunks().dictionary_encode()  # by first appearance
        index, num_images = image.indices.to_numpy(zero_copy_only=False), len(image.dictionary)
        fold = np.zeros(num_images, dtype=np.int64)
        fold[index] = rows.column("fold").to_numpy()
        tasks = rows.column("task").to_numpy()
        per_image: PerImage = {}
        for task in dict.fromkeys(tasks.tolist()):
            per_image |= _of_task(task, rows.filter(pa.array(tasks == task)), index[tasks == task], num_images)
        yield (
            split,
            Outcomes(
                images=tuple(image.dictionary.to_pylist()),
                fold=fold,
                num_captions=int((tasks == "t2i").sum()),
                table=per_image,
                by_unit=by_unit,
            ),
        )


def _by_unit(rows: pa.Table) -> dict[str, ByUnit]:
    names, result = rows.column("task").to_numpy(), dict[str, ByUnit]()
    for name in dict.fromkeys(names.tolist()):
        here = rows.filter(pa.array(names == name))
        unit = here.column("unit").combine_chunks().dictionary_encode()  # by first appearance
        fold = here.column("fold").to_numpy()
        place = (unit.indices.to_numpy(zero_copy_only=False), fold)
        counts = np.zeros((2, len(unit.dictionary), int(fold.max()) + 1))
        for values, column in zip(counts, ("hits", "queries"), strict=True):
            values[place] = here.column(column).to_numpy()
        result[name] = ByUnit(tuple(unit.dictionary.to_pylist()), *counts)
    return result


def _of_task(task: str, rows: pa.Table, image: np.ndarray, num_images: int) -> PerImage:
    counts = {name: torch.from_numpy(rows.column(name).to_numpy().astype(np.int64)) for name in _COUNTS}
    terms = recalls(task, Ranks(queries=torch.arange(len(image)), **counts), image, num_images)
    if rows.column("adversaries").null_count == 0:
        pairs = [rows.column(name).to_numpy().astype(np.float64) for name in ("wins", "adversaries")]
        summed = [np.bincount(image, weights=each, minlength=num_images) for each in pairs]
        terms[f"{task}/pair_accuracy"] = np.stack(summed, axis=1)
    return terms
