"""Vectors of a split or a folder for other programs: Parquet tables with ids, and FAISS indexes of their rows."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from vse import registry
from vse.config import fingerprint, knob, to_dict
from vse.data.image_files import picture_files
from vse.display.counts import count
from vse.errors import InputError
from vse.inference.embedder import Embedder
from vse.inference.inputs import FolderPictures, SplitData, expanded
from vse.inference.vector_index import faiss_package, flat_index, ivf_index, number_of_lists, recall
from vse.storage.folder import Folder
from vse.storage.parquet import parquet_bytes
from vse.workspace.layout import Workspace

REVISION = 1  # raise it if the same request would write other files
CUTOFFS = (1, 10)
PROBES = 8
INDEXES = ("flat", "ivf")


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexOptions:
    """Keys of the job."""

    run: str = knob("", "name of a folder below runs/, or a path that a job printed")
    split: str = knob("test", "split of the run's data set to export")
    images: str = knob("", "folder of pictures, at any depth, to export instead of a split", reads="folder")
    index: tuple[str, ...] = knob(INDEXES, "FAISS indexes to write next to the tables; empty: none", choices=INDEXES)
    lists: int = knob(0, "lists of the IVF index; 0: the root of the number of vectors", low=0)
    probes: int = knob(PROBES, "lists that a query is compared with", low=1)
    alpha: float | None = knob(None, "weight of u_sent if the family has it; default: as configured", low=0, high=1)


@dataclass(frozen=True, eq=False)
class _Table:
    """Vectors with the other columns of their table, in which `id` is the first."""

    columns: Mapping[str, Sequence[str]]
    vectors: np.ndarray


@dataclass(frozen=True, kw_only=True, slots=True)
class ExportedIndex:
    """What was exported: numbers by name, a line for each table, and what identifies the vectors."""

    folder: Folder
    among: str
    numbers: Mapping[str, Any]
    lines: tuple[str, ...]
    rejects: Mapping[str, str]
    fingerprints: Mapping[str, str]


def export_index(workspace: Workspace, options: IndexOptions) -> ExportedIndex:
    """Write tables and indexes to exports/index-<digits>.

    Raises:
        InputError: the family has no vectors that an index could rank by, a key does not fit, or a stage raises it.
    """
    embedder = _embedder(workspace, options)
    rejects = dict[str, str]()
    if options.images:
        pictures = FolderPictures(embedder, options.images)
        vectors = [embedder.vectors_of_images(batch) for batch in pictures.features("embed")]
        pictures.report_rejects()
        rejects, among, prints = pictures.rejects, f"folder {options.images}", dict[str, str]()
        tables = {"images": _Table({"id": pictures.readable}, np.concatenate(vectors))}
    else:
        data = SplitData.of(embedder, workspace, options.split)
        tables, among, prints = _of_split(embedder, data), data.name, data.fingerprints
    prints = {"weights": embedder.trained.weights, **prints}
    _check_lists(options, {name: len(table.vectors) for name, table in tables.items()})
    folder = workspace.export(f"index-{fingerprint([REVISION, _file_options(options), prints])}")
    numbers, lines = dict[str, Any](), list[str]()
    for name, table in tables.items():
        folder.write_bytes(f"{name}.parquet", _parquet(table, _facts(embedder, options, among)))
        queries = next((other.vectors for key, other in tables.items() if key != name), None)
        measured, line = _write_indexes(folder, name, table.vectors, queries, options)
        numbers |= {f"{name}/{key}": value for key, value in measured.items()}
        lines.append(line)
    return ExportedIndex(
        folder=folder,
        among=among,
        numbers=numbers,
        lines=tuple(lines),
        rejects=rejects,
        fingerprints=prints,
    )


def check_export(workspace: Workspace, options: IndexOptions) -> Iterator[str]:
    """The lines of a dry run; nothing is written. Raises InputError as `export_index` does before it embeds."""
    embedder = _embedder(workspace, options)
    if options.images:
        files, others = picture_files(expanded(options.images), "images")
        if others:
            yield others
        _check_lists(options, {"images": len(files)})
        yield f"export vectors of {count(len(files), 'picture')} in {options.images}"
        return
    records = registry.build("source", embedder.trained.config.data).describe()
    part = records.split(options.split)
    _check_lists(options, {"images": len(part.images), "captions": len(part.captions)})
    number = f"{count(len(part.images), 'image')} and {count(len(part.captions), 'caption')}"
    yield f"export vectors of {number} of split {part.name} of {records.name}"


def _check_lists(options: IndexOptions, numbers: Mapping[str, int]) -> None:
    """Raises InputError for more lists than a table has vectors."""
    for name, number in numbers.items():
        if "ivf" in options.index and options.lists > number:
            raise InputError(f"lists={options.lists}: {name} has {number} vectors; at most one list for each")


def _embedder(workspace: Workspace, options: IndexOptions) -> Embedder:
    changes = {} if options.alpha is None else {"model.alpha": options.alpha}
    embedder = Embedder.of_run(workspace, options.run, changes)
    embedder.check_one_vector()
    if options.images:
        embedder.check_pictures()
    if options.index:
        faiss_package()
    return embedder


def _of_split(embedder: Embedder, data: SplitData) -> dict[str, _Table]:
    part = data.part
    captions = part.captions
    texts = embedder.read([caption.text for caption in captions], data.parses())
    return {
        "images": _Table(
            {"id": [image.id for image in part.images], "uri": [image.uri for image in part.images]},
            embedder.vectors_of_images(data.array()),
        ),
        "captions": _Table(
            {
                "id": [caption.id for caption in captions],
                "image": [caption.image for caption in captions],
                "text": [caption.text for caption in captions],
            },
            embedder.vectors_of_captions(texts),
        ),
    }


def _facts(embedder: Embedder, options: IndexOptions, among: str) -> dict[str, str]:
    """Metadata of the table about its vectors."""
    facts = {"run": options.run, "family": registry.name_of("family", embedder.trained.config.model)}
    facts |= {"among": among, "weights": embedder.trained.weights, "score": "inner product"}
    return facts if embedder.alpha is None else {**facts, "alpha": f"{embedder.alpha:g}"}


def _parquet(table: _Table, facts: Mapping[str, str]) -> bytes:
    """The bytes of a Parquet file with a column `vector` of lists of one length."""
    length = table.vectors.shape[1]
    flat = pa.array(np.ascontiguousarray(table.vectors, np.float32).ravel())
    columns = {name: pa.array(map(_as_utf8, values), pa.string()) for name, values in table.columns.items()}
    arrow = pa.table({**columns, "vector": pa.FixedSizeListArray.from_arrays(flat, length)})
    arrow = arrow.replace_schema_metadata({"vse": json.dumps(dict(facts))})
    return parquet_bytes(arrow, use_dictionary=False)


def _as_utf8(text: str) -> str:
    """Names of files may hold bytes that are no UTF-8; these are written as escapes, as in JSON files."""
    return text.encode(errors="backslashreplace").decode()


def _write_indexes(
    folder: Folder, name: str, vectors: np.ndarray, queries: np.ndarray | None, options: IndexOptions
) -> tuple[dict[str, Any], str]:
    """Write the indexes of a table; returns their numbers and a line.

    Queries are the vectors of the other table. A folder has none, so each picture is looked for among the others.
    """
    line = f"{name}: {len(vectors):,} vectors of {vectors.shape[1]} dimensions"
    numbers: dict[str, Any] = {"vectors": len(vectors), "dimensions": vectors.shape[1]}
    if not options.index:
        return numbers, line
    exact = flat_index(vectors)
    if "flat" in options.index:
        _write(folder, f"{name}-flat.faiss", exact)
    if "ivf" not in options.index:
        return numbers, line
    lists = options.lists or number_of_lists(len(vectors))
    probes = min(options.probes, lists)
    index = ivf_index(vectors, lists, probes)
    _write(folder, f"{name}-ivf.faiss", index)
    of_others = queries is not None
    recalls = recall(index, exact, queries if queries is not None else vectors, CUTOFFS, own=not of_others)
    query_note = "vectors of the other table as queries" if of_others else "each picture among the others"
    shown = ", ".join(f"recall@{k} {value:.3f}" for k, value in recalls.items())
    numbers |= {"lists": lists, "probes": probes, **{f"recall@{k}": value for k, value in recalls.items()}}
    found = f": {shown} of exact search ({query_note})" if recalls else ""
    return numbers, f"{line}; IVF of {lists} lists, {probes} probed{found}"


def _write(folder: Folder, name: str, index: Any) -> None:
    folder.write_bytes(name, faiss_package().serialize_index(index).tobytes())


def _file_options(options: IndexOptions) -> dict[str, Any]:
    """The options that change the files; a job may have others."""
    return {name: value for name, value in to_dict(options).items() if name in IndexOptions.__dataclass_fields__}
