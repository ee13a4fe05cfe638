"""The sentence stage: features fitted once on training captions, and the vectors of all captions of a data set.

`language/<dataset>/<fingerprint>/fit` holds the fitted arrays, `.../captions-<digits>` one half-precision row for every
distinct caption, in shards. An interrupted run continues with the shards that are there.
"""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float, Float16, Float32

from vse import registry
from vse.config import fingerprint
from vse.language.sentence.features import SentenceFeatures
from vse.language.sentence.kinds import sentence_fingerprint
from vse.language.word_vectors import WordVectors, load_array, save_array
from vse.node_cache import mapped_array
from vse.progress import Progress
from vse.registry import ComponentConfig
from vse.storage import Folder

SHARD_TEXTS = 4096
_TEXTS = "texts.parquet"


def fitted(
    config: ComponentConfig, train_texts: Sequence[str], vectors: WordVectors, place: Callable[[str], Folder]
) -> SentenceFeatures | None:
    """The configured features fitted on captions of training images, or kept from before; None for `none`.

    place: folder of a fingerprint, such as `partial(workspace.language, dataset)`. Raises InputError where the vectors
    know no word of the captions.
    """
    if registry.name_of("sentence", config) == "none":
        return None
    folder = place(sentence_fingerprint(config, train_texts, vectors)).child("fit")
    # what is there needs no lock to be read; what comes from S3 is verified as it is read
    if folder.read_manifest(checksums=folder.is_local) is None:
        with folder.locked():
            if folder.read_manifest() is None:
                made: SentenceFeatures = registry.build("sentence", config).fit(train_texts, vectors)
                made.save(folder)
    return SentenceFeatures.open(folder)


@dataclass(frozen=True, eq=False)
class SentenceStore:
    """Sentence vectors by text: kept ones for the captions of a data set, computed ones for any other text."""

    features: SentenceFeatures
    folder: Folder

    @classmethod
    def make(cls, features: SentenceFeatures, texts: Sequence[str], place: Callable[[str], Folder]) -> "SentenceStore":
        """Vectors of all distinct `texts`, made as far as they are missing."""
        distinct = list(dict.fromkeys(texts))
        folder = place(features.fingerprint).child(f"captions-{fingerprint(distinct)}")
        if not folder.is_committed():
            with folder.locked():
                if not folder.is_committed():
                    _write(features, distinct, folder)
        return cls(features, folder)

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.features.dim

    @property
    def fingerprint(self) -> str:
        """Eight digits that name what the vectors are, whichever texts are kept."""
        return self.features.fingerprint

    def array(self, texts: Sequence[str]) -> Float32[np.ndarray, "texts dim"]:
        """Vectors in the order of `texts`, rounded to half precision as kept ones are."""
        found = np.empty((len(texts), self.dim), dtype=np.float32)
        self._fill(found, texts)
        return found

    def mapped(self, texts: Sequence[str], cache: Path) -> Float16[np.ndarray, "texts dim"]:
        """The same in a read-only memory-mapped file in `cache`, for more captions than memory holds."""
        place = f"{self.fingerprint}/sentence-{fingerprint(list(texts))}"
        return mapped_array(cache, place, (len(texts), self.dim), np.float16, lambda found: self._fill(found, texts))

    def _fill(self, found: Float[np.ndarray, "texts dim"], texts: Sequence[str]) -> None:
        places = np.array([self._row.get(text, -1) for text in texts], dtype=np.int64)
        for shard in np.unique(places[places >= 0] // SHARD_TEXTS):
            here = np.flatnonzero((places >= 0) & (places // SHARD_TEXTS == shard))
            found[here] = load_array(self.folder, _shard(int(shard)), mapped=True)[places[here] % SHARD_TEXTS]
        others = np.flatnonzero(places < 0)
        for low in range(0, len(others), SHARD_TEXTS):
            some = others[low : low + SHARD_TEXTS]
            found[some] = self.features.encode([texts[int(k)] for k in some]).astype(np.float16)

    @cached_property
    def _row(self) -> dict[str, int]:
        table = pq.read_table(pa.BufferReader(self.folder.read_bytes(_TEXTS)))
        return {text: k for k, text in enumerate(table.column("text").to_pylist())}


def _shard(number: int) -> str:
    return f"vectors-{number:05d}.npy"


def _write(features: SentenceFeatures, texts: list[str], folder: Folder) -> None:
    names = []
    with Progress("sentence vectors", total=len(texts), unit="captions") as bar:
        for number, low in enumerate(range(0, len(texts), SHARD_TEXTS)):
            names.append(_shard(number))
            some = texts[low : low + SHARD_TEXTS]
            if not folder.exists(names[-1]):  # written whole or not at all; the folder's name has all that decides it
                save_array(folder, names[-1], features.encode(some).astype(np.float16))
            bar.advance(len(some))
    sink = io.BytesIO()
    pq.write_table(pa.table({"text": pa.array(texts, pa.string())}), sink, compression="zstd")
    folder.write_bytes(_TEXTS, sink.getvalue())
    content = {"kind": "sentence_vectors", "fingerprint": features.fingerprint, "dim": features.dim}
    folder.commit_manifest([*names, _TEXTS], {**content, "num_texts": len(texts)})
