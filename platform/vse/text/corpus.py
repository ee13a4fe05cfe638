"""Parsed captions on disk: one row per distinct text with its whole parse and the components derived from it.

Parquet shards, readable with any Arrow reader and named after their contents, and a manifest that lists them.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vse.errors import DamagedError, InputError
from vse.storage.files import sha256_of
from vse.storage.folder import Folder
from vse.storage.node_cache import read_committed
from vse.storage.parquet import parquet_bytes
from vse.text.components import Attribute, Components, Modifier, Object, Relation, extract
from vse.text.parse import Parse, ParsedToken

SHARD_TEXTS = 4096

_INDEX, _WORD = pa.int32(), pa.string()
_TOKEN = pa.struct(
    [
        *(("text", _WORD), ("start", _INDEX), ("end", _INDEX), ("lemma", _WORD), ("tag", _WORD), ("pos", _WORD)),
        *(("head", _INDEX), ("dep", _WORD)),
    ]
)
_OBJECT = pa.struct([("word", _WORD), ("token", _INDEX)])
_ATTRIBUTE = pa.struct([("word", _WORD), ("noun", _WORD), ("token", _INDEX), ("noun_token", _INDEX)])
_RELATION = pa.struct(
    [
        *(("subject", _WORD), ("word", _WORD), ("object", _WORD), ("subject_token", _INDEX)),
        *(("tokens", pa.list_(_INDEX)), ("object_token", _INDEX)),
    ]
)
_MODIFIER = pa.struct([("word", _WORD), ("noun", _WORD)])
_COLUMNS = {
    **{"tokens": _TOKEN, "objects": _OBJECT, "attributes": _ATTRIBUTE, "relations": _RELATION},
    **{"nouns": _WORD, "modifiers": _MODIFIER},
}
SCHEMA = pa.schema([("text", _WORD), *((name, pa.list_(kind)) for name, kind in _COLUMNS.items())])


def table_of(texts: Sequence[str], parses: Sequence[Parse]) -> pa.Table:
    """One row per text: the parse, and its components as `extract` finds them."""
    extracted = [extract(parse) for parse in parses]
    rows: dict[str, list[Sequence[Any]]] = {
        "tokens": list(parses),
        **{name: [getattr(components, name) for components in extracted] for name in _COLUMNS if name != "tokens"},
    }
    columns = [_list_column(rows[name], kind) for name, kind in _COLUMNS.items()]
    return pa.table([pa.array(texts, _WORD), *columns], schema=SCHEMA)


def _list_column(rows: list[Sequence[Any]], kind: pa.DataType) -> pa.Array:
    """Rows of words as list<string>, of records as list<struct>, filled field by field, which is much faster than by
    record."""
    flat = [item for row in rows for item in row]
    if isinstance(kind, pa.StructType):
        fields = [pa.array([getattr(item, f.name) for item in flat], f.type) for f in kind]
        values = pa.StructArray.from_arrays(fields, fields=list(kind))
    else:
        values = pa.array(flat, kind)
    offsets = pa.array([0, *accumulate(len(row) for row in rows)], pa.int32())
    return pa.ListArray.from_arrays(offsets, values)


def shard_prefix(fingerprint: str) -> str:
    """How the shards that parser and rules of this fingerprint made begin."""
    return f"parses-{fingerprint}-"


def write_shard(folder: Folder, fingerprint: str, texts: Sequence[str], parses: Sequence[Parse]) -> str:
    """Write one shard whole or not at all.

    Args:
        folder: of the corpus.
        fingerprint: of the parser and the rules of components; the name of the shard begins with it.
        texts: distinct texts.
        parses: the parse of each text.

    Returns:
        The name of the shard, which is the same for the same texts.
    """
    name = f"{shard_prefix(fingerprint)}{sha256_of(chr(0).join(texts).encode())[:16]}.parquet"
    folder.write_bytes(name, parquet_bytes(table_of(texts, parses), compression="zstd"))
    return name


def finished(folder: Folder, fingerprint: str) -> dict[str, list[str]]:
    """Shards of this fingerprint that are there, manifest or not: name -> texts. Damaged ones are removed."""
    shards = {}
    for name in folder.names():
        if name.startswith(shard_prefix(fingerprint)):
            data = folder.read_bytes(name)  # a store that does not answer has damaged nothing
            try:
                table = pq.read_table(pa.BufferReader(data), columns=["text"])
            except (pa.ArrowInvalid, OSError):
                folder.delete(name)
                continue
            shards[name] = table.column("text").to_pylist()
    return shards


class Language:
    """Parses and components of a corpus. Rows are decoded on access; unknown texts raise KeyError."""

    def __init__(self, fingerprint: str, table: pa.Table) -> None:
        self.fingerprint = fingerprint
        self._row = {text: row for row, text in enumerate(table.column("text").to_pylist())}
        self._columns = {name: _Rows(table.column(name), kind) for name, kind in _COLUMNS.items()}

    @classmethod
    def open(cls, folder: Folder) -> "Language":
        """The committed corpus in `folder`. Raises InputError if there is none or it is incomplete."""
        corpus = cls.find(folder)
        if corpus is None:
            raise InputError(f"{folder}: holds no complete parsed captions; run jobs/parse_captions.py")
        return corpus

    @classmethod
    def find(cls, folder: Folder, texts: Iterable[str] = ()) -> "Language | None":
        """The committed corpus in `folder` if all `texts` are in it, else None. Files of S3 stay on this node, and what
        was read of them in this process."""
        manifest = folder.manifest_alone()
        if manifest is None or manifest.get("kind") != "language":
            return None
        try:
            corpus = cls._read(folder, manifest) if folder.is_local else _shared(folder, json.dumps(manifest))
        except (FileNotFoundError, DamagedError):
            return None
        return corpus if all(text in corpus for text in texts) else None

    @classmethod
    def _read(cls, folder: Folder, manifest: dict[str, Any]) -> "Language":
        tables = [SCHEMA.empty_table()]
        for name in manifest["files"]:
            if name.startswith(shard_prefix(manifest["fingerprint"])):
                table = pq.read_table(pa.BufferReader(read_committed(folder, manifest, name)))
                tables.append(table.cast(SCHEMA))
        return cls(manifest["fingerprint"], pa.concat_tables(tables))

    def __len__(self) -> int:
        return len(self._row)

    def __contains__(self, text: str) -> bool:
        return text in self._row

    def texts(self) -> Iterable[str]:
        """Distinct texts."""
        return self._row.keys()

    def parse(self, text: str) -> Parse:
        """The whole parse of a text."""
        return tuple(ParsedToken(*values) for values in self._columns["tokens"].row(self._row[text]))

    def components(self, text: str) -> Components:
        """Objects, attributes and relations of a text."""
        row = self._row[text]
        return Components(
            tuple(Object(*values) for values in self._columns["objects"].row(row)),
            tuple(Attribute(*values) for values in self._columns["attributes"].row(row)),
            tuple(Relation(*values) for values in self._columns["relations"].row(row)),
            tuple(word for (word,) in self._columns["nouns"].row(row)),
            tuple(Modifier(*values) for values in self._columns["modifiers"].row(row)),
        )


@lru_cache(maxsize=2)
def _shared(folder: Folder, manifest: str) -> Language:
    """Trials of one process share the captions of their data and those of its adversaries."""
    return Language._read(folder, json.loads(manifest))


class _Rows:
    """A list<string> or list<struct> column as flat arrays: a few bytes a field, decoded row by row."""

    def __init__(self, column: pa.ChunkedArray, kind: pa.DataType) -> None:
        lists = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], pa.list_(kind))
        self._offsets = np.asarray(lists.offsets)
        values = lists.values
        parts = [values.field(i) for i in range(kind.num_fields)] if isinstance(kind, pa.StructType) else [values]
        self._fields = [_decoder(part) for part in parts]

    def row(self, index: int) -> list[tuple[Any, ...]]:
        low, high = int(self._offsets[index]), int(self._offsets[index + 1])
        return list(zip(*(field(low, high) for field in self._fields), strict=True))


def _decoder(array: pa.Array) -> Callable[[int, int], list[Any]]:
    if pa.types.is_string(array.type):
        encoded = array.dictionary_encode()
        codes, words = np.asarray(encoded.indices), encoded.dictionary.to_pylist()
        return lambda low, high: [words[code] for code in codes[low:high].tolist()]
    if pa.types.is_list(array.type):
        offsets, values = np.asarray(array.offsets), np.asarray(array.values)
        return lambda low, high: [tuple(values[offsets[i] : offsets[i + 1]].tolist()) for i in range(low, high)]
    numbers = np.asarray(array)
    return lambda low, high: numbers[low:high].tolist()
