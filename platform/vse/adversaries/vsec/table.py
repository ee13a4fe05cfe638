"""Candidates on disk: one row per slot, Parquet shards of whole images, a manifest over them.

A candidate set of a thousand captions takes a few bitsets; no adversarial caption is stored as a string.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from vse.adversaries.pools import NounEntry
from vse.adversaries.univse.generate import text_hash
from vse.adversaries.vsec.slots import Slot
from vse.adversaries.vsec.words import WORD_SETS, Contrast
from vse.errors import InputError
from vse.storage.files import sha256_of
from vse.storage.folder import Folder
from vse.storage.node_cache import read_committed
from vse.storage.parquet import parquet_bytes

WORDS = "words.json"
_NAME = pa.dictionary(pa.int32(), pa.string())
_FIXED = pa.struct([("first", pa.int32()), ("last", pa.int32()), ("text", pa.string())])
SCHEMA = pa.schema(
    [
        *(("caption", pa.string()), ("text_hash", pa.string()), ("paradigm", _NAME), ("first", pa.int32())),
        *(("last", pa.int32()), ("phrases", _NAME), ("allowed", pa.binary()), ("fixed", pa.list_(_FIXED))),
        ("reason", _NAME),
    ]
)


def width_of(words: Contrast, phrases: str) -> int:
    """Bytes of a bitset over a list."""
    return -(-len(words.phrases[phrases]) // 8)


def table_of(rows: Iterable[tuple[str, str, Slot]], words: Contrast) -> pa.Table:
    """One row per slot from (caption id, caption text, slot)."""
    rows = list(rows)
    slots = [slot for _, _, slot in rows]
    columns = {
        "caption": [caption for caption, _, _ in rows],
        "text_hash": [text_hash(text) for _, text, _ in rows],
        "paradigm": [slot.paradigm for slot in slots],
        "first": [slot.first for slot in slots],
        "last": [slot.last for slot in slots],
        "phrases": [slot.phrases for slot in slots],
        "allowed": [slot.allowed.to_bytes(width_of(words, slot.phrases), "little") for slot in slots],
        "fixed": [[{"first": f, "last": e, "text": t} for f, e, t in slot.fixed] for slot in slots],
        "reason": [slot.reason for slot in slots],
    }
    return pa.table({f.name: pa.array(columns[f.name], f.type) for f in SCHEMA}, schema=SCHEMA)


def slot_of(row: dict[str, Any]) -> Slot:
    """The slot of a row as `to_pylist` gives it."""
    return Slot(
        paradigm=row["paradigm"],
        first=row["first"],
        last=row["last"],
        phrases=row["phrases"],
        allowed=int.from_bytes(row["allowed"], "little"),
        fixed=tuple((each["first"], each["last"], each["text"]) for each in row["fixed"]),
        reason=row["reason"],
    )


def shard_name(fingerprint: str, captions: Sequence[str]) -> str:
    """The name of the shard of some captions: the same captions, the same name."""
    return f"candidates-{fingerprint}-{sha256_of(chr(0).join(captions).encode('utf-8', 'surrogatepass'))[:16]}.parquet"


def write_shard(folder: Folder, name: str, captions: Sequence[str], table: pa.Table) -> None:
    """Write a shard atomically.

    Args:
        folder: The folder of the candidate set.
        name: File name, of `shard_name`.
        captions: Ids of all captions that the shard was made for, with or without slots; kept in the metadata.
        table: Their slots, of `table_of`.
    """
    kept = table.replace_schema_metadata({b"captions": json.dumps(list(captions)).encode()})
    folder.write_bytes(name, parquet_bytes(kept, compression="zstd"))


def finished(folder: Folder, fingerprint: str) -> dict[str, list[str]]:
    """Shards that are there, manifest or not: name -> captions. Damaged ones are removed."""
    shards = {}
    for name in folder.names():
        if name.startswith(f"candidates-{fingerprint}-"):
            data = folder.read_bytes(name)  # a store that does not answer has damaged nothing
            try:
                metadata = pq.read_schema(pa.BufferReader(data)).metadata or {}
                shards[name] = json.loads(metadata[b"captions"])
            except (pa.ArrowInvalid, OSError, KeyError, ValueError):
                folder.delete(name)
    return shards


def words_to_json(words: Contrast) -> bytes:
    """The words of the candidates, as JSON."""
    data = asdict(words) | {name: sorted(getattr(words, name)) for name in WORD_SETS}
    return json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False).encode()


def words_from_json(data: bytes, where: str) -> Contrast:
    """Parse the output of `words_to_json`; raises InputError naming `where`."""
    try:
        raw = json.loads(data)
        return Contrast(
            kind=raw["kind"],
            nouns=tuple(NounEntry(**entry) for entry in raw["nouns"]),
            numerals=tuple(raw["numerals"]),
            prepositions=tuple(raw["prepositions"]),
            forms={word: (forms[0], forms[1]) for word, forms in raw["forms"].items()},
            **{name: frozenset(raw[name]) for name in WORD_SETS},
        )
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise InputError(f"{where}: not words of contrastive captions in this version's format ({error})") from None


class Candidates:
    """Candidate sets of the captions of a split, as a table of slots sorted by caption."""

    def __init__(self, fingerprint: str, words: Contrast, table: pa.Table) -> None:
        self.fingerprint, self.words, self.table = fingerprint, words, table

    @classmethod
    def open(cls, folder: Folder) -> "Candidates":
        """The committed candidates in `folder`. Raises InputError if there are none, or a file is damaged."""
        candidates = cls.find(folder)
        if candidates is None:
            raise InputError(f"{folder}: holds no complete candidates of contrastive captions")
        return candidates

    @classmethod
    def find(cls, folder: Folder) -> "Candidates | None":
        """The committed candidates in `folder`, None if there are none, or a file is damaged."""
        manifest = folder.manifest_alone()
        if manifest is None or manifest.get("kind") != "candidates":
            return None
        try:
            files = {name: read_committed(folder, manifest, name) for name in manifest["files"]}
        except (FileNotFoundError, InputError):
            return None
        words = words_from_json(files.pop(WORDS), f"{folder}/{WORDS}")
        tables = [SCHEMA.empty_table()]
        for data in files.values():
            table = pq.read_table(pa.BufferReader(data))
            tables.append(table.replace_schema_metadata(None).cast(SCHEMA))
        table = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
        return cls(manifest["fingerprint"], words, table)

    def slots(self) -> dict[str, list[Slot]]:
        """Slots by caption id, for captions that have some."""
        slots: dict[str, list[Slot]] = {}
        for batch in self.table.to_batches(max_chunksize=4096):
            for row in batch.to_pylist():
                slots.setdefault(row["caption"], []).append(slot_of(row))
        return slots


def read_counts(data: bytes) -> list[tuple[str, str, int]]:
    """(caption id, paradigm, number of alternatives) of every slot of a shard."""
    rows = pq.read_table(pa.BufferReader(data), columns=["caption", "paradigm", "allowed"])
    sizes = [int.from_bytes(bits, "little").bit_count() for bits in rows.column("allowed").to_pylist()]
    return list(zip(rows.column("caption").to_pylist(), rows.column("paradigm").to_pylist(), sizes, strict=True))
