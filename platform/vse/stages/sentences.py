"""The sentence stage: features fitted once on training captions, and the vectors of all captions of a data set.

`language/<dataset>/<fingerprint>/fit` holds the fitted arrays, `.../captions-<digits>` half-precision rows in shards:
one for every distinct caption, or one for each of its words. An interrupted run continues with the shards that are
there.
"""

import contextlib
import functools
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float16

from vse import registry
from vse.config import fingerprint
from vse.display.progress import Progress
from vse.errors import DamagedError, InputError
from vse.registry import ComponentConfig
from vse.storage.damage import remove_damaged
from vse.storage.files import entry_of
from vse.storage.folder import Folder
from vse.storage.node_cache import mapped_array, read_checked
from vse.storage.parallel_reads import read_ahead
from vse.storage.parquet import parquet_bytes
from vse.text.sentence.features import SentenceFeatures
from vse.text.sentence.kinds import TextSource, sentence_fingerprint
from vse.text.word_vectors import save_array
from vse.training.examples import SentenceVectors

SHARD_TEXTS = 4096
_TEXTS = "texts.parquet"


def fitted(
    config: ComponentConfig, train_texts: Sequence[str], source: TextSource, place: Callable[[str], Folder]
) -> SentenceFeatures | None:
    """The configured features fitted on captions of training images, or kept from before; None for `none`.

    Args:
        config: of the sentence features.
        train_texts: captions of training images.
        source: word vectors or an encoder, whichever the features are made of.
        place: folder of a fingerprint, such as `partial(workspace.language, dataset)`.

    Raises:
        InputError: no word of the captions has a vector, or the encoder cannot be loaded.
    """
    if registry.name_of("sentence", config) == "none":
        return None
    folder = place(sentence_fingerprint(config, train_texts, source)).child("fit")
    # reading needs no lock; files from S3 are verified as they are read
    if folder.read_manifest(checksums=folder.is_local) is not None:
        with contextlib.suppress(DamagedError):
            return SentenceFeatures.open(folder)
    with folder.locked():
        if folder.read_manifest() is None:
            remove_damaged(folder)
            features: SentenceFeatures = registry.build("sentence", config).fit(train_texts, source)
            features.save(folder)
    return SentenceFeatures.open(folder)


@dataclass(frozen=True, eq=False)
class SentenceStore:
    """Sentence vectors by text: stored for the captions of a data set, computed for other texts.

    Stored vectors are in `cache` on this node, in one file that all processes map.
    """

    features: SentenceFeatures
    folder: Folder
    manifest: Mapping[str, Any]
    cache: Path
    texts: Sequence[str]  # distinct, in the order of the rows

    @classmethod
    def make(
        cls, features: SentenceFeatures, texts: Sequence[str], place: Callable[[str], Folder], cache: Path
    ) -> "SentenceStore":
        """Vectors of texts, stored by text; missing ones are computed and stored.

        Args:
            features: compute the vectors.
            texts: those of the data set; each distinct one has a vector, or one for each of its words.
            place: maps a fingerprint to a folder, as `partial(workspace.language, dataset)` does.
            cache: folder on this node for the file that processes map.
        """
        distinct = list(dict.fromkeys(texts))
        folder = place(features.fingerprint).child(f"captions-{fingerprint(distinct)}")
        manifest = folder.read_manifest(checksums=False)
        if manifest is None:
            with folder.locked():
                manifest = folder.read_manifest(checksums=False) or _write(features, distinct, folder)
        return cls(features, folder, manifest, cache, distinct)

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.features.dim

    @property
    def fingerprint(self) -> str:
        """Eight digits that identify the vectors, whichever texts are stored."""
        return self.features.fingerprint

    def vectors(self, texts: Sequence[str]) -> SentenceVectors:
        """The vectors of `texts` in half precision: in the mapped file if all are stored, else in memory.

        Files that are damaged when they are copied to this node are recomputed.
        """
        row = np.array([self._row.get(text, -1) for text in texts], dtype=np.int64)
        kept, others = np.flatnonzero(row >= 0), np.flatnonzero(row < 0)
        lengths = self.features.lengths(texts)
        if not len(others):
            return SentenceVectors(self._kept, self._starts[row], lengths)
        number = np.ones(len(texts), dtype=np.int64) if lengths is None else lengths
        starts = np.cumsum(number) - number
        values = np.empty((int(number.sum()), self.dim), dtype=np.float16)
        if len(kept):
            values[_rows(starts[kept], number[kept])] = self._kept[_rows(self._starts[row[kept]], number[kept])]
        for low in range(0, len(others), SHARD_TEXTS):
            some = others[low : low + SHARD_TEXTS]
            values[_rows(starts[some], number[some])] = _half(self.features.encode([texts[int(k)] for k in some]))
        return SentenceVectors(values, starts, lengths)

    @cached_property
    def _kept(self) -> Float16[np.ndarray, "rows dim"]:
        """The stored vectors, mapped read-only and copied to this node by the first process that reads them."""
        try:
            return self._mapped(self.manifest)
        except (FileNotFoundError, DamagedError):
            with self.folder.locked():
                remove_damaged(self.folder)
                return self._mapped(_write(self.features, self.texts, self.folder))

    def _mapped(self, manifest: Mapping[str, Any]) -> Float16[np.ndarray, "rows dim"]:
        files, shape = manifest["files"], (int(self._starts[-1]), self.dim)
        place = f"{fingerprint([files[name]['sha256'] for name in sorted(files)])}/sentence"
        return mapped_array(self.cache, place, shape, np.float16, functools.partial(self._fill, manifest))

    def _fill(self, manifest: Mapping[str, Any], values: Float16[np.ndarray, "rows dim"]) -> None:
        """Fill an array shard by shard, each checked against the manifest.

        Memory holds two shards more than twice the number that `read_ahead` reads in parallel: for 6,000 numbers per
        vector, 0.7 GB on S3 and 0.3 GB on a disk.
        """
        names = sorted(name for name in manifest["files"] if name != _TEXTS)

        def rows_of(name: str) -> np.ndarray:
            return np.load(io.BytesIO(read_checked(self.folder, manifest, name)), allow_pickle=False)

        at = 0
        with contextlib.closing(read_ahead(self.folder, rows_of, names)) as shards:
            for rows in shards:
                values[at : at + len(rows)] = rows
                at += len(rows)

    @cached_property
    def _starts(self) -> np.ndarray:
        """First row of each stored text, and the number of all rows."""
        lengths = self.features.lengths(self.texts)
        number = np.ones(len(self.texts), dtype=np.int64) if lengths is None else lengths
        return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(number)])

    @cached_property
    def _row(self) -> dict[str, int]:
        return {text: k for k, text in enumerate(self.texts)}


def _rows(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Numbers of the rows of some texts, one text after the other."""
    begin = np.cumsum(lengths) - lengths
    return np.repeat(starts - begin, lengths) + np.arange(int(lengths.sum()))


def _half(vectors: np.ndarray) -> Float16[np.ndarray, "rows dim"]:
    """Raises InputError for vectors that half precision cannot hold, or holds with fewer than 8 significant bits."""
    largest = np.abs(vectors).max(initial=0)
    if 0 < largest < 2.0**-17 or np.finfo(np.float16).max < largest < np.inf:
        raise InputError(
            f"text.word_vectors: caption vectors are stored in half precision, which cannot represent these (at most "
            f"{largest:.2g}); scale all word vectors, so that their largest numbers are near 1"
        )
    return vectors.astype(np.float16)


def _shard(number: int) -> str:
    return f"vectors-{number:05d}.npy"


def _write(features: SentenceFeatures, texts: Sequence[str], folder: Folder) -> dict[str, Any]:
    """Write missing and truncated shards, and the manifest. Shards committed before keep their checksum."""
    parts = {_shard(n): texts[low : low + SHARD_TEXTS] for n, low in enumerate(range(0, len(texts), SHARD_TEXTS))}
    before, sizes = (folder.manifest_alone() or {}).get("files", {}), folder.sizes(list(parts))
    entries: dict[str, Any] = {}
    with Progress("sentence vectors", total=len(texts), unit="captions") as bar:
        for name, some in parts.items():
            # writes are atomic, and the name of the folder determines the content
            if sizes[name] is None or (name in before and before[name]["bytes"] != sizes[name]):
                entries[name] = save_array(folder, name, _half(features.encode(some)))
            elif name in before:
                entries[name] = before[name]
            bar.advance(len(some))
    data = parquet_bytes(pa.table({"text": pa.array(texts, pa.string())}), compression="zstd")
    folder.write_bytes(_TEXTS, data)
    entries[_TEXTS] = entry_of(data)
    content = {"kind": "sentence_vectors", "fingerprint": features.fingerprint, "dim": features.dim}
    return folder.commit_manifest([*parts, _TEXTS], {**content, "num_texts": len(texts), "files": entries})
