"""What every query of an evaluation met, kept as a table, so that recalls over any images can be computed again.

A row is one query of a task: an image that looks for its captions (`i2t`, `attack_object`, ...) or a caption that looks
for its image (`t2i`), with the counts that make a rank (`metrics.Ranks`). Rows of an attack also have how many
adversaries the image's captions have, and how many of these lose against the caption that they were made from.
"""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch

from vse.data.records import Split
from vse.errors import InputError
from vse.evaluation.metrics import Ranks
from vse.evaluation.per_image import PerImage, counts_of, recalls
from vse.evaluation.task import Queries

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
    ]
)
_PRINTS = b"vse.fingerprints"


def rows_of(queries: Sequence[Queries], split: Split, label: str) -> list[pa.Table]:
    """Rows of what a task recorded of a split; `label` is the split with its protocol."""
    images = np.array([image.id for image in split.images], dtype=object)
    captions = np.array([caption.id for caption in split.captions], dtype=object)

    def table(each: Queries) -> pa.Table:
        same = {"split": label, "task": each.name, "fold": each.fold}
        columns = {name: getattr(each.ranks, name).cpu().numpy() for name in _COUNTS} | {"image": images[each.images]}
        columns |= {name: np.full(len(each.images), value, dtype=object) for name, value in same.items()}
        if each.captions is not None:
            columns["caption"] = captions[each.captions]
        if each.pairs is not None:
            columns |= {"wins": each.pairs[:, 0], "adversaries": each.pairs[:, 1]}
        absent = np.full(len(each.images), None, dtype=object)
        return pa.table([pa.array(columns.get(field.name, absent), field.type) for field in _SCHEMA], schema=_SCHEMA)

    return list(map(table, queries))


def pack(rows: Sequence[pa.Table], prints: Mapping[str, str]) -> bytes:
    """Rows of any splits as Parquet; `prints`: fingerprints of the data and adversaries that they are of."""
    table = pa.concat_tables(rows).replace_schema_metadata({_PRINTS: json.dumps(dict(prints))})
    sink = io.BytesIO()
    pq.write_table(table, sink, compression="zstd", compression_level=19)
    return sink.getvalue()


def unpack(data: bytes) -> tuple[dict[str, "Outcomes"], dict[str, str]]:
    """(outcomes by split, fingerprints) of what `pack` made. Raises InputError for anything else."""
    try:
        table = pq.read_table(pa.BufferReader(data))
        prints = json.loads((table.schema.metadata or {})[_PRINTS])
        return dict(_by_split(table.select(_SCHEMA.names).cast(_SCHEMA))), prints
    except (pa.ArrowException, KeyError, ValueError, OSError) as error:
        raise InputError(f"not a table of outcomes ({type(error).__name__})") from None


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcomes:
    """Outcomes of one split: ids of its images in their order, the fold each is in, the number of captions.

    table: every recall and pair accuracy per image, by metric without the split.
    """

    images: tuple[str, ...]
    fold: np.ndarray
    num_captions: int
    table: PerImage

    def counts(self, metric: str) -> tuple[np.ndarray, np.ndarray]:
        """(hits, queries) of a metric's terms, both (images, terms), as `statistics.Sample` takes them.

        A mean over folds becomes a sum over as many terms, each of one fold's images. A fold in which nothing is asked
        counts for nothing, as in `metrics.mean_over_folds`. Raises InputError for a metric that was not measured.
        """
        hits, queries = counts_of(self.table, metric)
        inside = self.fold[:, None] == np.unique(self.fold)  # (images, folds)
        hits, queries = (values[:, :, None] * inside[:, None, :] for values in (hits, queries))
        asked = queries.sum(0) > 0  # (terms, folds)
        folds = asked.sum(1)
        asked[folds == 0, 0] = True  # a term that asks nothing leaves the metric without a number
        return (hits / folds.clip(1)[None, :, None])[:, asked], queries[:, asked]


def _by_split(table: pa.Table) -> Iterator[tuple[str, Outcomes]]:
    splits = table.column("split").to_numpy()
    for split in dict.fromkeys(splits.tolist()):
        rows = table.filter(pa.array(splits == split))
        image = rows.column("image").combine_chunks().dictionary_encode()  # by first appearance
        index, num_images = image.indices.to_numpy(zero_copy_only=False), len(image.dictionary)
        fold = np.zeros(num_images, dtype=np.int64)
        fold[index] = rows.column("fold").to_numpy()
        tasks = rows.column("task").to_numpy()
        found: PerImage = {}
        for task in dict.fromkeys(tasks.tolist()):
            found |= _of_task(task, rows.filter(pa.array(tasks == task)), index[tasks == task], num_images)
        yield (
            split,
            Outcomes(
                images=tuple(image.dictionary.to_pylist()),
                fold=fold,
                num_captions=int((tasks == "t2i").sum()),
                table=found,
            ),
        )


def _of_task(task: str, rows: pa.Table, image: np.ndarray, num_images: int) -> PerImage:
    counts = {name: torch.from_numpy(rows.column(name).to_numpy().astype(np.int64)) for name in _COUNTS}
    found = recalls(task, Ranks(queries=torch.arange(len(image)), **counts), image, num_images)
    if rows.column("adversaries").null_count == 0:
        pairs = [rows.column(name).to_numpy().astype(np.float64) for name in ("wins", "adversaries")]
        summed = [np.bincount(image, weights=each, minlength=num_images) for each in pairs]
        found[f"{task}/pair_accuracy"] = np.stack(summed, axis=1)
    return found
